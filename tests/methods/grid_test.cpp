#include "methods/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/support/layers.h"
#include "tests/support/problems.h"

namespace gptqb::test {
namespace {

GridRule rule_of(int64_t bits, bool symmetric, ScaleDtype scale_dtype = ScaleDtype::kFloat32) {
  return {.quant = {
              .bits = bits, .group_size = -1, .symmetric = symmetric, .scale_dtype = scale_dtype}};
}

QuantizedLinear rtn_row(std::vector<float> row, const GridRule& rule) {
  return round_to_nearest(matrix({std::move(row)}), rule, "layer");
}

float scale_of(const QuantizedLinear& quantized) { return quantized.scales[0][0].item<float>(); }
int64_t zero_of(const QuantizedLinear& quantized) { return quantized.zeros[0][0].item<int64_t>(); }

// Fault QN-13: the zero point is added before the clamp, not after it.
TEST(Grid, AddsTheZeroPointBeforeClamping) {
  const auto quantized = rtn_row({-1, 0, 1, 3}, rule_of(3, false));
  EXPECT_FLOAT_EQ(scale_of(quantized), 4.f / 7);
  EXPECT_EQ(zero_of(quantized), 2);
  EXPECT_EQ(codes_text(quantized), "0247");
}

// Fault QN-15: the range includes 0, so the zero point is a code.
TEST(Grid, IncludesZeroInTheRange) {
  const auto negative = rtn_row({-1, -.9f, -.8f, -.75f}, rule_of(4, false));
  EXPECT_FLOAT_EQ(scale_of(negative), 1.f / 15);
  EXPECT_EQ(zero_of(negative), 15);
  const auto positive = rtn_row({.8f, .9f, 1}, rule_of(4, false));
  EXPECT_EQ(zero_of(positive), 0);
}

// Fault GG-13: which of the grids called symmetric this is: codes 0 .. 15 around 8, steps of range
// / 15.
TEST(Grid, SymmetricIsTheFullRangeOfCodes) {
  const auto quantized = rtn_row({-7.5f, 7.5f}, rule_of(4, true));  // steps of exactly 1
  EXPECT_EQ(scale_of(quantized), 1.f);
  EXPECT_EQ(zero_of(quantized), 8);
  EXPECT_EQ(codes_text(quantized), "015");
  EXPECT_TRUE(at::equal(quantized.dequantize(at::kFloat), matrix({{-8, 7}})));

  // The most negative weight lies on a rounding boundary, so the dtype of the scale decides:
  // float16's 2/15 is a little small, float32's a little large.
  const auto half = rtn_row({-1, 1}, rule_of(4, true, ScaleDtype::kFloat16));
  EXPECT_NEAR(scale_of(half), 2.f / 15, 1e-4);
  EXPECT_EQ(codes_text(half), "015");
  const auto single = rtn_row({-1, 1}, rule_of(4, true));
  EXPECT_FLOAT_EQ(scale_of(single), 2.f / 15);
  EXPECT_EQ(codes_text(single), "115");
}

// Protocol 5.4: the published symmetric grid clips a row without negative weights; ours does not.
TEST(Grid, OneSidedRowsAreClippedOnlyWhenAskedFor) {
  auto rule = rule_of(4, true);
  const auto full = rtn_row({0, .6f, 1}, rule);
  EXPECT_FLOAT_EQ(scale_of(full), 2.f / 15);
  EXPECT_EQ(count_clipped(matrix({{0, .6f, 1}}), full), 0);
  rule.one_sided = true;
  const auto clipped = rtn_row({0, .6f, 1}, rule);
  EXPECT_FLOAT_EQ(scale_of(clipped), 1.f / 15);
  EXPECT_EQ(zero_of(clipped), 8);
  EXPECT_EQ(clipped.codes[0][2].item<int64_t>(), 15);
  EXPECT_EQ(count_clipped(matrix({{0, .6f, 1}}), clipped), 2);
}

TEST(Grid, RoundsHalfToEven) {
  // Range [0, 15], scale 1: 0.5 -> 0, 1.5 -> 2, 2.5 -> 2.
  EXPECT_EQ(codes_text(rtn_row({0.5f, 1.5f, 2.5f, 15, 3.5f}, rule_of(4, false))), "022154");
}

// Fault QN-10: an all-zero group has a usable scale and gives exactly 0.
TEST(Grid, AllZeroGroupsStayZero) {
  const auto weights =
      at::cat({at::zeros({2, 4}), matrix({{.1f, -.2f, .3f, .4f}, {1, 2, 3, -4}})}, 1);
  for (const bool symmetric : {false, true})
    for (const auto dtype : {ScaleDtype::kFloat16, ScaleDtype::kFloat32}) {
      auto rule = rule_of(4, symmetric, dtype);
      rule.quant.group_size = 4;
      const auto quantized = round_to_nearest(weights, rule, "layer");
      quantized.validate("layer");
      EXPECT_EQ(quantized.dequantize(at::kFloat).narrow(1, 0, 4).abs().max().item<float>(), 0);
    }
}

// Fault PK-11: a scale must survive its storage dtype.
TEST(Grid, ScalesSurviveFloat16) {
  const auto rule = rule_of(4, false, ScaleDtype::kFloat16);
  const auto tiny = rtn_row({1e-9f, -1e-9f}, rule);
  EXPECT_EQ(scale_of(tiny), 5.9604644775390625e-08f);
  tiny.validate("layer");
  const auto third = rtn_row({5, 0}, rule);  // 1/3 is not a float16
  EXPECT_EQ(scale_of(third), static_cast<float>(static_cast<c10::Half>(1.f / 3)));
  try {
    rtn_row({2e6f, -1e6f}, rule);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("[layer]"),
                                               ::testing::HasSubstr("at most 65504"),
                                               ::testing::HasSubstr("quant.scale_dtype: float32")));
  }
  rtn_row({2e6f, -1e6f}, rule_of(4, false)).validate("layer");
}

// Fault GG-12: the search works with groups, and never does worse than the plain grid by its own
// measure.
TEST(Grid, SearchBeatsMinMaxOnAnOutlier) {
  auto weights = normal_matrix(6, 40, 3).to(at::kFloat);
  weights.select(1, 7).fill_(6.f);
  for (const int64_t group_size : {-1, 16}) {
    auto rule = rule_of(3, false);
    rule.quant.group_size = group_size;
    const auto error = [&] {
      const auto e = round_to_nearest(weights, rule, "layer").dequantize(at::kFloat) - weights;
      return e.abs().pow(2.4).sum(1);
    };
    const auto plain = error();
    rule.quant.grid_search = GridSearch::kMse;
    const auto searched = error();
    EXPECT_TRUE((searched <= plain + 1e-6).all().item<bool>());
    EXPECT_LT(searched.sum().item<float>(), plain.sum().item<float>());
  }
}

// The last of 80 candidates is p = 0.21: a row of which only a fifth of the range matters finds it.
TEST(Grid, SearchGoesDownToAFifthOfTheRange) {
  std::vector<float> row(4000, 0.1f);
  for (size_t i = 0; i < row.size(); i += 2) row[i] = 0.2f;
  row[0] = 1.0f;
  auto rule = rule_of(2, false);
  rule.quant.grid_search = GridSearch::kMse;
  const auto quantized = rtn_row(row, rule);
  EXPECT_NEAR(scale_of(quantized), 0.1f, 0.005f);  // 3 steps of 0.1 cover p = 0.3
  EXPECT_EQ(quantized.codes[0][1].item<int64_t>(), 1);
  EXPECT_EQ(quantized.codes[0][2].item<int64_t>(), 2);
}

// Fault GG-01: columns that are no multiple of the group size end in a short group.
TEST(Grid, LastGroupMayBeShort) {
  const auto weights = normal_matrix(5, 7, 1).to(at::kFloat);
  auto rule = rule_of(4, false);
  rule.quant.group_size = 4;
  const auto grids = fit_group_grids(weights, rule);
  EXPECT_EQ(grids.scale.sizes(), (std::vector<int64_t>{5, 2}));
  const auto tail = fit_grid(weights.narrow(1, 4, 3), rule);
  EXPECT_TRUE(at::equal(grids.scale.select(1, 1), tail.scale));
}

// Protocol 5.6: levels {min, 0, max}; above half of max a weight becomes max, below half of min it
// becomes min. The two magnitudes differ.
TEST(Grid, TernaryHasTheGroupsOwnSmallestAndLargest) {
  const auto rule = rule_of(QuantConfig::kTernary, false);
  const auto quantized = rtn_row({-2, -1.1f, -1, -.9f, 0, .4f, 1.5f, 1.6f, 3}, rule);
  quantized.validate("layer");
  EXPECT_TRUE(at::equal(quantized.levels, at::tensor({-2.f, 0.f, 3.f}).reshape({1, 1, 3})));
  EXPECT_EQ(codes_text(quantized), "001111122");
  EXPECT_TRUE(at::equal(quantized.dequantize(at::kFloat), matrix({{-2, -2, 0, 0, 0, 0, 0, 3, 3}})));
  EXPECT_EQ(quantized.bits, QuantConfig::kTernary);
  EXPECT_EQ(count_clipped(matrix({{-2, -1.1f, -1, -3.1f, 0, .4f, 1.5f, 4.6f, 3}}), quantized), 2);

  // The range includes 0: a side without weights has the level 0.
  const auto positive = rtn_row({.2f, .9f, 1}, rule);
  EXPECT_TRUE(at::equal(positive.levels.reshape({3}), at::tensor({0.f, 0.f, 1.f})));
  EXPECT_TRUE(at::equal(positive.dequantize(at::kFloat), matrix({{0, 1, 1}})));
  // Symmetric: one magnitude.
  const auto symmetric = rtn_row({-.5f, .2f, 2}, rule_of(QuantConfig::kTernary, true));
  EXPECT_TRUE(at::equal(symmetric.levels.reshape({3}), at::tensor({-2.f, 0.f, 2.f})));
  const auto zero = rtn_row({0, 0}, rule);
  EXPECT_TRUE(at::equal(zero.dequantize(at::kFloat), at::zeros({1, 2})));
}

TEST(Grid, TernaryLevelsAreStoredInTheirDtype) {
  const auto half =
      rtn_row({-.1f, 0, 1.f / 3}, rule_of(QuantConfig::kTernary, false, ScaleDtype::kFloat16));
  EXPECT_TRUE(at::equal(half.levels, half.levels.to(at::kHalf).to(at::kFloat)));
  EXPECT_NEAR(half.levels[0][0][2].item<float>(), 1.f / 3, 1e-4);
  EXPECT_THAT(
      [] {
        rtn_row({-1e6f, 1}, rule_of(QuantConfig::kTernary, false, ScaleDtype::kFloat16));
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("at most 65504")));
}

}  // namespace
}  // namespace gptqb::test
