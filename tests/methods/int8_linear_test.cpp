#include "methods/int8_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "methods/quantizer.h"
#include "tests/support/layers.h"

namespace gptqb {
namespace {

using test::random;

// Dettmers et al. 2022, section 3, value by value: which columns hold outliers, integer sums of the
// others, and the outliers' products beside them.
double by_hand(const at::Tensor& x, const at::Tensor& w, int64_t token, int64_t row,
               double threshold) {
  const int64_t columns = x.size(1);
  std::vector<bool> outlier(columns, false);
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t t = 0; t < x.size(0); ++t)
      outlier[c] = outlier[c] || std::abs(x[t][c].item<double>()) >= threshold;
  float token_max = 0;
  float row_max = 0;
  for (int64_t c = 0; c < columns; ++c) {
    if (!outlier[c]) token_max = std::max(token_max, std::abs(x[token][c].item<float>()));
    row_max = std::max(row_max, std::abs(w[row][c].item<float>()));
  }
  const float token_scale = token_max / 127;
  const float row_scale = row_max / 127;
  int64_t integers = 0;
  double floats = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const auto code = static_cast<int64_t>(std::nearbyint(w[row][c].item<float>() / row_scale));
    if (outlier[c])
      floats += x[token][c].item<double>() * static_cast<double>(code) * row_scale;
    else
      integers +=
          code * static_cast<int64_t>(std::nearbyint(x[token][c].item<float>() / token_scale));
  }
  return static_cast<double>(integers) * token_scale * row_scale + floats;
}

TEST(Int8Linear, ProductIsThatOfThePaperValueByValue) {
  auto x = random({20, 32}, 1);
  x[3][5] = 9;  // one outlier makes its column one
  x[7][11] = -6;
  const auto w = random({8, 32}, 2);
  const auto product = int8_product(x.unsqueeze(0), quantize_int8(w, 6), {})[0];
  for (int64_t t = 0; t < 20; ++t)
    for (int64_t r = 0; r < 8; ++r)
      EXPECT_NEAR(product[t][r].item<double>(), by_hand(x, w, t, r, 6), 2e-5) << t << " " << r;
}

TEST(Int8Linear, OutlierColumnsAreThoseOfTheWindowAlone) {
  auto calm = random({1, 20, 32}, 3).clamp(-3, 3);
  auto wild = calm.clone();
  wild[0][2][9] = 40;
  const auto linear = quantize_int8(random({8, 32}, 4), 6);
  const auto bias = random({8}, 5);
  const auto together = int8_product(at::cat({wild, calm}), linear, bias);
  EXPECT_TRUE(at::equal(together[1], int8_product(calm, linear, bias)[0]));
  EXPECT_TRUE(at::equal(together[0], int8_product(wild, linear, bias)[0]));
  EXPECT_EQ(outlier_columns(wild[0], 6).sum().item<int64_t>(), 1);
  EXPECT_TRUE(outlier_columns(wild[0], 6)[9].item<bool>());
}

TEST(Int8Linear, WithEveryColumnAnOutlierActivationsAreNotRounded) {
  const auto x = random({2, 20, 32}, 6);
  const auto linear = quantize_int8(random({8, 32}, 7), 0);
  EXPECT_TRUE(at::allclose(int8_product(x, linear, {}),
                           at::matmul(x, linear.dequantize(at::kFloat).t()), 1e-5, 1e-5));
}

TEST(Int8Linear, LargeSumsStayExact) {
  // 127 * 127 * 4096 is beyond what f32 can count one by one.
  const auto x = at::ones({1, 20, 4096});
  const auto linear = quantize_int8(at::ones({8, 4096}), 6);
  EXPECT_TRUE(at::allclose(int8_product(x, linear, {}), at::full({1, 20, 8}, 4096.0f), 1e-6, 0));
}

TEST(LlmInt8, RecordsTheShareOfOutlierColumnsAndItsOwnBits) {
  auto x = random({2, 10, 16}, 8).clamp(-3, 3);
  x[0][1][4] = 7;
  x[1][2][4] = -8;
  x[1][5][9] = 6;
  CalibrationStats stats(16, at::kCPU, Accumulation::kSum, 6.0);
  stats.add(x);
  auto problem = test::layer_problem(random({8, 16}, 9), &stats);
  const auto result = test::quantize_with("llm_int8", problem);
  EXPECT_DOUBLE_EQ(*result.health.outlier_share, 3.0 / 32);
  EXPECT_EQ(result.health.bits, 8);
  // Its scales are float32 whatever quant.scale_dtype says.
  EXPECT_EQ(result.replacement.stored_bits(16), 8 * 16 * 8 + 8 * 32);
  EXPECT_LT(*result.health.relative_error, 1e-4);
}

}  // namespace
}  // namespace gptqb
