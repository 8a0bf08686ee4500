#include "methods/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/support/layers.h"
#include "tests/support/problems.h"

namespace gptqb::test {
namespace {

TEST(CalibrationStats, HessianHasThePublishedScale) {
  // Two sequences of two tokens: H = 2 / 2 * sum of x x^T.
  CalibrationStats stats(2, at::kCPU);
  EXPECT_EQ(stats.hessian().abs().max().item<float>(), 0);
  stats.add(at::tensor({1.f, 2.f, 0.f, 1.f}).reshape({1, 2, 2}));
  stats.add(at::tensor({-1.f, 1.f, 3.f, 0.f}).reshape({1, 2, 2}));
  EXPECT_TRUE(at::equal(stats.hessian(), matrix({{11, 1}, {1, 6}})));
  EXPECT_EQ(stats.tokens(), 4);
  EXPECT_EQ(stats.sequences(), 2);
}

// More columns than a panel, more values than a chunk, any split into calls, every dtype.
TEST(CalibrationStats, SumsEveryTokenOnce) {
  const auto x = normal_matrix(8 * 1000, 700, 4).reshape({8, 1000, 700});
  const auto flat = x.reshape({-1, 700});
  const auto expected = at::mm(flat.t(), flat) * (2.0 / 8);
  CalibrationStats stats(700, at::kCPU);
  stats.add(x.narrow(0, 0, 5).to(at::kFloat));
  stats.add(x.narrow(0, 5, 3).to(at::kFloat));
  const auto h = stats.hessian().to(at::kDouble);
  EXPECT_LT((h - expected).abs().max().item<double>() / expected.abs().max().item<double>(), 1e-5);
  EXPECT_TRUE(at::equal(h, h.t()));
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const auto low = x.narrow(0, 0, 1).to(dtype);
    const auto exact = low.to(at::kDouble).reshape({-1, 700});
    const auto got = stats_of(low).hessian().to(at::kDouble);
    const auto wanted = at::mm(exact.t(), exact) * 2;
    EXPECT_LT((got - wanted).abs().max().item<double>() / wanted.abs().max().item<double>(), 1e-5);
  }
}

// Fault QN-11: sums of float16 numbers are wider than float16, in H and in the product the models
// use.
TEST(CalibrationStats, HalfInputsDoNotOverflow) {
  const auto x = at::full({1, 1, 2}, 300, at::kHalf);
  EXPECT_TRUE(at::equal(stats_of(x).hessian(), at::full({2, 2}, 180000.f)));
  const auto weight = at::tensor({300.f, -300.f}).reshape({1, 2}).to(at::kHalf);
  EXPECT_EQ(at::linear(x, weight).item<float>(), 0);
}

TEST(CalibrationStats, CountsInputsThatAreNotFinite) {
  auto x = at::ones({2, 3, 6});
  CalibrationStats stats(6, at::kCPU);
  stats.add(x);
  EXPECT_EQ(stats.first_non_finite_column(), -1);
  EXPECT_EQ(stats.first_non_finite_sequence(), -1);
  x[1][0][4] = INFINITY;
  x[1][2][5] = NAN;
  stats.add(x);
  stats.add(at::ones({1, 3, 6}));
  EXPECT_EQ(stats.non_finite_inputs(), 2);
  // Four columns and a sequence before it, and two sequences of the call before.
  EXPECT_EQ(stats.first_non_finite_column(), 4);
  EXPECT_EQ(stats.first_non_finite_sequence(), 3);
}

TEST(CalibrationStats, RefusesOtherShapes) {
  CalibrationStats stats(6, at::kCPU);
  EXPECT_THAT(
      [&] {
        stats.add(at::ones({2, 3, 5}));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("[sequences, seqlen, 6]")));
}

}  // namespace
}  // namespace gptqb::test
