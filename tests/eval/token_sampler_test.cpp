// Sampling against a slow, obvious oracle.
#include "eval/token_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "tests/support/message.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

SamplingOptions with(double temperature, int64_t top_k = 0, double top_p = 1, uint64_t seed = 0) {
  return {.temperature = temperature, .top_k = top_k, .top_p = top_p, .seed = seed};
}

const at::Tensor kLogits = at::tensor({0.3, 2.0, -1.0, 2.0, 1.1, -4.0, 0.9, 1.1}, at::kDouble);

// Takes the likeliest token again and again, the smaller id first, until k are taken or their share
// of what k may hold reaches p.
std::vector<double> slow_shares(const at::Tensor& logits, double temperature, int64_t k, double p) {
  const int64_t vocabulary = logits.size(0);
  std::vector<double> weights;
  for (int64_t id = 0; id < vocabulary; ++id)
    weights.push_back(std::exp(logits[id].item<double>() / temperature));
  std::vector<int64_t> ranked;
  while (static_cast<int64_t>(ranked.size()) < (k == 0 ? vocabulary : std::min(k, vocabulary))) {
    int64_t best = -1;
    for (int64_t id = 0; id < vocabulary; ++id)
      if (std::count(ranked.begin(), ranked.end(), id) == 0 &&
          (best < 0 || weights[id] > weights[best]))
        best = id;
    ranked.push_back(best);
  }
  double all = 0;
  for (const int64_t id : ranked) all += weights[id];
  std::vector<double> shares(vocabulary, 0.0);
  double reached = 0;
  for (const int64_t id : ranked) {
    shares[id] = weights[id];
    reached += weights[id];
    if (p < 1 && reached >= p * all) break;
  }
  for (double& share : shares) share /= reached;
  return shares;
}

TEST(TokenSampler, SharesAreThoseOfTheOracle) {
  for (const double temperature : {0.2, 0.7, 1.0, 3.0})
    for (const int64_t k : {0, 1, 2, 3, 5, 8, 100})
      for (const double p : {0.05, 0.3, 0.5, 0.9, 0.999, 1.0}) {
        SCOPED_TRACE(testing::Message() << temperature << ", " << k << ", " << p);
        const auto shares = sampling_shares(kLogits, with(temperature, k, p));
        const auto slow = slow_shares(kLogits, temperature, k, p);
        ASSERT_EQ(shares.size(), slow.size());
        for (size_t id = 0; id < slow.size(); ++id) EXPECT_NEAR(shares[id], slow[id], 1e-12);
      }
}

TEST(TokenSampler, SharesByHand) {
  // Weights 1, 2, 4, 1 of 8.
  const at::Tensor logits = at::tensor({1.0, 2.0, 4.0, 1.0}, at::kDouble).log();
  const auto near = [](double x) { return DoubleNear(x, 1e-12); };
  EXPECT_THAT(sampling_shares(logits, with(1)),
              ElementsAre(near(0.125), near(0.25), near(0.5), near(0.125)));
  EXPECT_THAT(sampling_shares(logits, with(1, 2)), ElementsAre(0, near(1.0 / 3), near(2.0 / 3), 0));
  // Of equal ones the smaller id.
  EXPECT_THAT(sampling_shares(logits, with(1, 3)),
              ElementsAre(near(1.0 / 7), near(2.0 / 7), near(4.0 / 7), 0));
  EXPECT_THAT(sampling_shares(logits, with(1, 0, 0.4)), ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(sampling_shares(logits, with(1, 0, 0.6)),
              ElementsAre(0, near(1.0 / 3), near(2.0 / 3), 0));
  // Half the temperature squares the weights: 1, 4, 16, 1 of 22.
  EXPECT_THAT(sampling_shares(logits, with(0.5)),
              ElementsAre(near(1.0 / 22), near(4.0 / 22), near(16.0 / 22), near(1.0 / 22)));
}

TEST(TokenSampler, DrawsComeAsOftenAsTheirShares) {
  const auto shares = sampling_shares(kLogits, with(0.9, 5));
  TokenSampler sampler(with(0.9, 5, 1, 17));
  constexpr int64_t kDraws = 20000;
  std::map<int64_t, int64_t> counts;
  for (int64_t i = 0; i < kDraws; ++i) ++counts[sampler.next(kLogits)];
  for (size_t id = 0; id < shares.size(); ++id) {
    const double sigma = std::sqrt(kDraws * shares[id] * (1 - shares[id]));
    EXPECT_NEAR(static_cast<double>(counts[static_cast<int64_t>(id)]), kDraws * shares[id],
                4.5 * sigma);
  }
}

// The generator's published numbers decide: its 10000th is 9981545732273789042 for seed 5489.
TEST(TokenSampler, DrawsAreThoseOfTheNamedGenerator) {
  std::mt19937_64 generator(5489);
  const at::Tensor even = at::zeros({1000}, at::kDouble);
  TokenSampler sampler(with(1, 0, 1, 5489));
  int64_t last = -1;
  for (int i = 0; i < 10000; ++i) {
    const uint64_t x = generator();
    last = sampler.next(even);
    EXPECT_NEAR(static_cast<double>(last),
                std::floor(static_cast<double>(x >> 11) / 9007199254740992.0 * 1000), 1e-9);
  }
  EXPECT_EQ(last, static_cast<int64_t>(9981545732273789042.0 / 18446744073709551616.0 * 1000));
}

TEST(TokenSampler, OneSeedOneText) {
  const auto draws = [](uint64_t seed) {
    TokenSampler sampler(with(1, 0, 1, seed));
    std::vector<int64_t> ids;
    for (int i = 0; i < 50; ++i) ids.push_back(sampler.next(kLogits));
    return ids;
  };
  EXPECT_EQ(draws(3), draws(3));
  EXPECT_NE(draws(3), draws(4));
}

TEST(TokenSampler, LimitsThatLimitNothingChangeNoDraw) {
  TokenSampler plain(with(1, 0, 1, 5)), all(with(1, kLogits.size(0), 1, 5));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(plain.next(kLogits), all.next(kLogits));
}

TEST(TokenSampler, TemperatureZeroTakesTheFirstOfTheLikeliest) {
  TokenSampler sampler(with(0));
  EXPECT_EQ(sampler.next(kLogits), 1);
  EXPECT_EQ(sampler.next(kLogits.to(at::kHalf)), 1);
  EXPECT_EQ(TokenSampler(with(5, 1)).next(kLogits), 1);
}

TEST(TokenSampler, LogitsThatAreNotFiniteAreNamed) {
  at::Tensor logits = kLogits.to(at::kHalf);
  logits[2] = std::numeric_limits<float>::quiet_NaN();
  for (const double temperature : {0.0, 1.0})
    EXPECT_THAT(message_of([&] { TokenSampler(with(temperature)).next(logits); }),
                AllOf(HasSubstr("expected finite logits, got nan for id 2"),
                      HasSubstr("--dtype float32 or bfloat16")));
}

TEST(TokenSampler, SettingsOutOfRangeAreRefused) {
  EXPECT_THAT(message_of([] { TokenSampler(with(-1)); }), HasSubstr("expected a number from 0 on"));
  EXPECT_THAT(message_of([] { TokenSampler(with(std::nan(""))); }), HasSubstr("temperature"));
  EXPECT_THAT(message_of([] { TokenSampler(with(1, -1)); }), HasSubstr("top-k"));
  for (const double p : {0.0, -0.5, 1.5, std::nan("")})
    EXPECT_THAT(message_of([&] { TokenSampler(with(1, 0, p)); }),
                HasSubstr("expected a number above 0 and at most 1"));
}

}  // namespace
}  // namespace gptqb::test
