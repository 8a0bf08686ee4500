#include "common/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "common/error.h"
#include "tests/support/message.h"

namespace gptqb {
namespace {

TEST(StatisticsTest, MeanAndStandardErrorByHand) {
  const MeanEstimate estimate = estimate_mean({2, 4, 4, 6});
  EXPECT_EQ(estimate.count, 4);
  EXPECT_DOUBLE_EQ(estimate.mean, 4);
  EXPECT_DOUBLE_EQ(*estimate.deviation, std::sqrt(8.0 / 3));
  EXPECT_DOUBLE_EQ(*estimate.standard_error, std::sqrt(8.0 / 3) / 2);
}

TEST(StatisticsTest, OneSampleHasNoSpreadAndNoneHasNoMean) {
  EXPECT_DOUBLE_EQ(estimate_mean({3}).mean, 3);
  EXPECT_FALSE(estimate_mean({3}).standard_error);
  EXPECT_TRUE(std::isnan(estimate_mean({}).mean));
}

TEST(StatisticsTest, PerplexityErrorIsFirstOrder) {
  EXPECT_DOUBLE_EQ(perplexity_standard_error(20, 0.01), 0.2);
}

// Printed tables of Student's t (any statistics book), two-sided 95 % and 99 %, and the closed
// forms for 1 and 2 degrees.
TEST(StatisticsTest, StudentQuantilesMatchPrintedTables) {
  struct Row {
    double probability, degrees, value, tolerance;
  };
  for (const Row& row :
       {Row{0.975, 1, 12.706, 5e-4}, Row{0.975, 2, 4.303, 5e-4}, Row{0.975, 5, 2.571, 5e-4},
        Row{0.975, 7, 2.365, 5e-4}, Row{0.975, 30, 2.042, 5e-4}, Row{0.975, 120, 1.980, 5e-4},
        Row{0.975, 1e6, 1.95996, 1e-5}, Row{0.995, 10, 3.169, 5e-4}, Row{0.95, 4, 2.132, 5e-4},
        Row{0.5, 9, 0.0, 0}, Row{0.025, 5, -2.571, 5e-4}})
    EXPECT_NEAR(student_t_quantile(row.probability, row.degrees), row.value, row.tolerance)
        << row.probability << " " << row.degrees;
  EXPECT_NEAR(student_t_quantile(0.975, 1), std::tan(M_PI * 0.475), 1e-8);
  EXPECT_NEAR(student_t_quantile(0.9, 2), 0.8 * std::sqrt(2 / (4 * 0.9 * 0.1)), 1e-10);
}

TEST(StatisticsTest, StudentQuantileRefusesWhatHasNoMeaning) {
  try {
    student_t_quantile(0.975, 0);
    ADD_FAILURE() << "expected Error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[student_t_quantile] expected 0 < probability < 1 and degrees >= 1, got 0.975000 "
                 "and 0.000000");
  }
}

// Differences 1, 2, 3: mean 2, deviation 1, t(2) = 4.3027, so half width 4.3027 / sqrt(3).
TEST(StatisticsTest, PairedDifferenceByHand) {
  const auto difference = paired_difference({11, 22, 33}, {10, 20, 30});
  ASSERT_TRUE(difference);
  EXPECT_DOUBLE_EQ(difference->mean, 2);
  EXPECT_NEAR(*difference->half_width, 4.302653 / std::sqrt(3.0), 1e-6);
  EXPECT_TRUE(difference->tie());
}

// Windows differ far more among themselves than the models do: only the pairing sees the
// difference.
TEST(StatisticsTest, PairingCancelsTheDifficultyOfWindows) {
  const auto difference = paired_difference({1.011, 5.009, 9.010, 3.010}, {1, 5, 9, 3});
  ASSERT_TRUE(difference);
  EXPECT_FALSE(difference->tie());
  EXPECT_NEAR(difference->mean, 0.010, 1e-12);
  EXPECT_LT(*difference->half_width, 0.002);
}

TEST(StatisticsTest, EqualSamplesTieAndAConstantShiftDoesNot) {
  EXPECT_TRUE(paired_difference({1, 2}, {1, 2})->tie());
  EXPECT_FALSE(paired_difference({1.5, 2.5}, {1, 2})->tie());
}

TEST(StatisticsTest, OneWindowGivesNoIntervalAndNoTie) {
  const auto difference = paired_difference({2}, {1});
  ASSERT_TRUE(difference);
  EXPECT_FALSE(difference->half_width);
  EXPECT_FALSE(difference->tie());
}

TEST(StatisticsTest, WhatCannotBePairedIsNotCompared) {
  EXPECT_FALSE(paired_difference({1, 2}, {1}));
  EXPECT_FALSE(paired_difference({}, {}));
  EXPECT_FALSE(paired_difference({1, std::numeric_limits<double>::infinity()}, {1, 2}));
}

// numpy.quantile([3, 1, 2, 10], [0, 0.25, 0.5, 0.99, 1]).
TEST(Quantile, IsLinearBetweenOrderedValues) {
  const std::vector<double> values = {3, 1, 2, 10};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.25), 1.75);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 0.99), 9.79);
  EXPECT_EQ(quantile(values, 1), 10);
  EXPECT_EQ(quantile({7}, 0.3), 7);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
  EXPECT_TRUE(std::isnan(quantile({1, std::nan(""), 2}, 0)));
  EXPECT_THROW(quantile(values, 1.5), Error);
}

// Critical values of the two-sided test as printed in tables of Mann and Whitney's U.
TEST(RankSum, CriticalValuesMatchPrintedTables) {
  EXPECT_EQ(rank_sum_critical(4, 4, 0.025), 0);
  EXPECT_EQ(rank_sum_critical(5, 5, 0.025), 2);
  EXPECT_EQ(rank_sum_critical(10, 10, 0.025), 23);
  EXPECT_EQ(rank_sum_critical(20, 20, 0.025), 127);
  EXPECT_EQ(rank_sum_critical(5, 5, 0.005), 0);
  EXPECT_EQ(rank_sum_critical(8, 12, 0.005), 15);
  EXPECT_EQ(rank_sum_critical(12, 8, 0.005), 15);
  EXPECT_EQ(rank_sum_critical(20, 20, 0.005), 105);
  // Too few for any decision.
  EXPECT_EQ(rank_sum_critical(3, 3, 0.025), -1);
  EXPECT_EQ(rank_sum_critical(4, 4, 0.005), -1);
  EXPECT_EQ(rank_sum_critical(1, 1, 0.025), -1);
}

// The approximation takes over where counting ends: on both sides of the border it gives the same.
TEST(RankSum, TheApproximationContinuesTheCounts) {
  const int64_t counted = rank_sum_critical(50, 50, 0.005);
  const double pairs = 2500, deviation = std::sqrt(pairs * 101 / 12);
  EXPECT_NEAR(static_cast<double>(counted), pairs / 2 - 0.5 - 2.5758 * deviation, 3);
  EXPECT_GT(rank_sum_critical(50, 51, 0.005), counted);
}

TEST(RatioOfSamples, ByHand) {
  // All 25 ratios lie between 11 / 5 and 15 / 1: with five a side the 99 % interval is their range.
  const RatioEstimate estimate = estimate_ratio({1, 2, 3, 4, 5}, {11, 12, 13, 14, 15}, 0.99);
  EXPECT_DOUBLE_EQ(*estimate.low, 11.0 / 5);
  EXPECT_DOUBLE_EQ(*estimate.high, 15);
  EXPECT_DOUBLE_EQ(estimate.ratio, 13.0 / 3);  // 12 lie below, 12 above
  const RatioEstimate inverse = estimate_ratio({11, 12, 13, 14, 15}, {1, 2, 3, 4, 5}, 0.99);
  EXPECT_DOUBLE_EQ(inverse.ratio * estimate.ratio, 1);
  EXPECT_DOUBLE_EQ(*inverse.low * *estimate.high, 1);
  const RatioEstimate few = estimate_ratio({1, 2}, {2, 4}, 0.99);
  EXPECT_DOUBLE_EQ(few.ratio, 2);
  EXPECT_FALSE(few.low || few.high);
  EXPECT_EQ(test::message_of([] { estimate_ratio({0}, {1}, 0.99); }),
            "[estimate_ratio] expected positive samples, got 0.000000 and 1.000000");
  EXPECT_EQ(test::message_of([] { estimate_ratio({}, {1}, 0.99); }),
            "[estimate_ratio] expected samples on both sides, got none");
}

// Whatever the shape of the noise, the interval misses the truth at most as often as it says.
TEST(RatioOfSamples, TheIntervalHoldsTheTruthAsOftenAsItSays) {
  std::mt19937 random(7);
  std::exponential_distribution<double> load;  // it only ever slows
  int missed = 0;
  constexpr int kTrials = 4000;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> before, after;
    for (int i = 0; i < 6; ++i) {
      before.push_back(1 + load(random));
      after.push_back(1.3 * (1 + load(random)));
    }
    const RatioEstimate estimate = estimate_ratio(before, after, 0.95);
    missed += *estimate.low > 1.3 || *estimate.high < 1.3;
  }
  // P(U <= 5) = 19 / 924 on either side: 4.1 %, give or take 4 standard errors.
  EXPECT_NEAR(static_cast<double>(missed) / kTrials, 38.0 / 924, 0.013);
}

}  // namespace
}  // namespace gptqb
