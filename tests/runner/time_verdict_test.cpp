#include "runner/report/time_verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace gptqb {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TimedSamples runs(const std::vector<double>& readings) {
  TimedSamples result;
  for (double reading : readings) result.push_back({reading});
  return result;
}

TimedSamples times(double factor, TimedSamples samples) {
  for (auto& run : samples)
    for (double& value : run) value *= factor;
  return samples;
}

const TimedSamples kQuiet = runs({10.0, 10.1, 10.05, 10.2, 10.15});

TEST(TimeVerdict, TenPercentInFiveQuietRunsAreSlower) {
  const TimeVerdict slower = judge_times(kQuiet, times(1.1, kQuiet), {});
  EXPECT_EQ(slower.change, Change::kSlower);
  // The factor's interval is its range at five a side: 11 / 10.2 and 11.22 / 10.
  EXPECT_EQ(slower.detail, "x1.10 [1.08, 1.12] by 5 and 5 runs");
  EXPECT_DOUBLE_EQ(slower.before, 10.1);
  EXPECT_EQ(judge_times(times(1.1, kQuiet), kQuiet, {}).change, Change::kFaster);
  EXPECT_EQ(judge_times(kQuiet, times(1.1, kQuiet), {.higher_is_better = true}).change,
            Change::kFaster);
}

TEST(TimeVerdict, WhatDoesNotMatterIsTheSameHoweverSure) {
  const TimedSamples exact = runs({10, 10, 10, 10, 10});
  EXPECT_EQ(judge_times(exact, times(1.03, exact), {}).change, Change::kSame);
  EXPECT_EQ(judge_times(exact, times(1.06, exact), {}).change, Change::kSlower);
  EXPECT_EQ(judge_times(exact, times(1.06, exact), {.threshold = 0.1}).change, Change::kSame);
  // 0.6 s, and nobody minds a second.
  EXPECT_EQ(judge_times(exact, times(1.06, exact), {.smallest = 1}).change, Change::kSame);
}

TEST(TimeVerdict, NoiseIsUnclearAndNotSlower) {
  const TimedSamples noisy = runs({10, 16, 11, 17, 10.5});
  EXPECT_EQ(judge_times(noisy, times(1.1, noisy), {}).change, Change::kUnclear);
  EXPECT_EQ(judge_times(noisy, noisy, {}).detail, "equal");
}

// One run that a neighbour disturbed decides nothing where there are more.
TEST(TimeVerdict, AWildRunIsOneOfMany) {
  const std::vector<double> before(10, 10.0), after(10, 11.0);
  std::vector<double> disturbed = before;
  disturbed[3] = 90;
  EXPECT_EQ(judge_times(runs(disturbed), runs(after), {}).change, Change::kSlower);
  EXPECT_EQ(judge_times(runs(before), runs(disturbed), {}).change, Change::kSame);
}

TEST(TimeVerdict, TooFewRunsGiveNoVerdict) {
  const TimedSamples four(kQuiet.begin(), kQuiet.begin() + 4);
  const TimeVerdict verdict = judge_times(four, times(2, four), {});
  EXPECT_EQ(verdict.change, Change::kUnclear);
  EXPECT_EQ(verdict.detail, "x2.00 by 4 and 4 runs, too few to tell from noise");
  EXPECT_EQ(judge_times(four, times(2, four), {.confidence = 0.95}).change, Change::kSlower);
}

// 20 repetitions in one process each: they agree among themselves and know nothing of the next
// process.
TEST(TimeVerdict, RepetitionsWithinARunSayAtMostThatItIsTheSame) {
  std::vector<double> run;
  for (int i = 0; i < 20; ++i) run.push_back(10 + 0.01 * i);
  const TimedSamples one = {run};
  EXPECT_EQ(judge_times(one, times(1.02, one), {}).change, Change::kSame);
  const TimeVerdict verdict = judge_times(one, times(1.5, one), {});
  EXPECT_EQ(verdict.change, Change::kUnclear);
  EXPECT_THAT(verdict.detail, StartsWith("x1.50 [1."));
  EXPECT_THAT(verdict.detail,
              HasSubstr("by 20 and 20 repetitions within runs, which do not show how runs differ"));
  // Of five runs the medians are compared.
  const TimedSamples five(5, run);
  EXPECT_EQ(judge_times(five, times(1.5, five), {}).change, Change::kSlower);
}

TEST(TimeVerdict, TimesThatAreNoneGiveNoVerdict) {
  EXPECT_EQ(judge_times(runs({0, 0, 0, 0, 0}), kQuiet, {}).change, Change::kUnclear);
  EXPECT_EQ(
      judge_times(kQuiet, runs({std::numeric_limits<double>::infinity(), 1, 1, 1, 1}), {}).change,
      Change::kUnclear);
  EXPECT_EQ(judge_times(runs({0, 0}), runs({0, 0}), {}).change, Change::kSame);
}

// Load only ever slows, by nothing most of the time and by two thirds when a neighbour works, and
// neighbours work for a while: the gate stays quiet over many comparisons of equal code, and finds
// 10 % once runs are many enough to see through.
TEST(TimeVerdict, StaysQuietOnALoadedMachineAndFindsARegressionThere) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform;
  bool busy = false;
  const auto take = [&] {
    if (uniform(random) < 0.2) busy = !busy;
    return 10 * (busy ? 1.67 : 1.0) * (1 + 0.02 * uniform(random));
  };
  int alarms = 0, found = 0, trials = 500;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> before, after, slower;
    for (int i = 0; i < 20; ++i) {  // in turns
      before.push_back(take());
      after.push_back(take());
      slower.push_back(1.1 * take());
    }
    const Change change = judge_times(runs(before), runs(after), {}).change;
    alarms += change == Change::kSlower || change == Change::kFaster;
    found += judge_times(runs(before), runs(slower), {}).change == Change::kSlower;
  }
  // The interval misses the truth in 1 % of cases; a verdict asks for more than that.
  EXPECT_LE(alarms, 5);
  EXPECT_GE(found, trials / 2);
}

}  // namespace
}  // namespace gptqb
