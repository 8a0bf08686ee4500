#include "methods/quantized_linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "methods/quant_config.h"
#include "tests/support/layers.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

QuantizedLinear example() {
  QuantizedLinear linear;
  linear.codes = at::tensor({0, 1, 2, 3, 15, 8, 7, 6, 5, 4}, at::kByte).reshape({2, 5});
  linear.scales = matrix({{.5f, 2.f}, {1.f, .25f}});
  linear.zeros = at::tensor({1, 0, 8, 4}, at::kByte).reshape({2, 2});
  linear.bits = 4;
  linear.group_size = 3;
  return linear;
}

TEST(QuantizedLinear, DequantizesByGroupWithAShortLastOne) {
  const auto expected = matrix({{-.5f, 0, .5f, 6, 30}, {0, -1, -2, .25f, 0}});
  EXPECT_TRUE(at::equal(example().dequantize(at::kFloat), expected));
  EXPECT_EQ(example().dequantize(at::kHalf).scalar_type(), at::kHalf);
}

// Fault GG-05: the group index decides, not the place of a column.
TEST(QuantizedLinear, DequantizesByGroupIndex) {
  auto linear = example();
  linear.group_of_input = at::tensor({1, 0, 1, 0, 0}, at::kInt);
  const auto expected = matrix({{0, 0, 4, 1, 7}, {1, -1, .5f, -3, -4}});
  EXPECT_TRUE(at::equal(linear.dequantize(at::kFloat), expected));
}

// Fault GG-15: 4 bits in groups of 32 with float16 scales and 4-bit zeros are 4.625 bits a weight.
TEST(QuantizedLinear, CountsEveryStoredBit) {
  QuantizedLinear linear;
  linear.codes = at::zeros({8, 64}, at::kByte);
  linear.scales = at::ones({8, 2});
  linear.zeros = at::zeros({8, 2}, at::kByte);
  linear.group_size = 32;
  EXPECT_EQ(static_cast<double>(linear.stored_bits(16)) / (8 * 64), 4.625);
  linear.group_of_input = at::zeros({64}, at::kInt);
  EXPECT_EQ(linear.stored_bits(16), 8 * 64 * 4 + 16 * 20 + 64 * 32);
}

// Fault GG-14: a group count is that of the logical columns; nothing is padded.
TEST(QuantizedLinear, CodesHaveAHashThatOnlyTheyDecide) {
  QuantizedLinear linear;
  linear.codes = at::arange(35, at::kByte).view({5, 7}) % 8;
  linear.scales = at::ones({5, 1});
  const std::string hash = linear.codes_hash();
  EXPECT_EQ(hash, "36091d862e20dc86");  // by Python's integers from the definition
  QuantizedLinear same = linear;
  same.scales = at::full({5, 1}, 2.0f);
  EXPECT_EQ(same.codes_hash(), hash);
  same.codes = linear.codes.t().contiguous().t();  // other strides, same codes
  EXPECT_EQ(same.codes_hash(), hash);
  for (const int64_t place : {0, 7, 8, 34}) {
    same.codes = linear.codes.clone();
    same.codes.view({-1})[place].bitwise_xor_(1);
    EXPECT_NE(same.codes_hash(), hash) << place;
  }
  same.codes = linear.codes.clone();
  same.codes[0].copy_(linear.codes[1]);
  same.codes[1].copy_(linear.codes[0]);
  EXPECT_NE(same.codes_hash(), hash) << "two rows changed places";
}

TEST(QuantizedLinear, GroupsCountLogicalColumns) {
  const QuantConfig quant{.bits = 4, .group_size = 32};
  EXPECT_EQ(quant.groups(344), 11);
  EXPECT_EQ(quant.groups(352), 11);
  QuantizedLinear linear;
  linear.codes = at::zeros({3, 344}, at::kByte);
  linear.scales = at::ones({3, 11});
  linear.zeros = at::zeros({3, 11}, at::kByte);
  linear.group_size = 32;
  linear.validate("layer");
  EXPECT_EQ(linear.dequantize(at::kFloat).size(1), 344);
}

TEST(QuantizedLinear, ValidateNamesTheTensor) {
  example().validate("layer");
  const auto expect = [](auto change, const char* text) {
    auto linear = example();
    change(linear);
    EXPECT_THAT([&] { linear.validate("layer"); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  expect([](auto& l) { l.codes = at::Tensor(); }, "[layer] codes: expected a matrix");
  expect([](auto& l) { l.codes.fill_(16); }, "codes: expected values of at most 15, got 16");
  expect([](auto& l) { l.codes = l.codes.to(at::kInt); }, "codes: expected dtype Byte, got Int");
  expect([](auto& l) { l.scales = at::ones({2, 3}); }, "scales: expected shape [2, 2], got [2, 3]");
  expect([](auto& l) { l.scales[0][0] = 0; }, "scales: expected finite values above 0, got 1 that");
  expect([](auto& l) { l.scales[1][0] = NAN; },
         "scales: expected finite values above 0, got 1 that");
  expect([](auto& l) { l.zeros = at::Tensor(); }, "zeros: expected a tensor, got none");
  expect([](auto& l) { l.group_of_input = at::full({5}, 2, at::kInt); },
         "group_of_input: expected values of at most 1, got 2");
  expect([](auto& l) { l.group_of_input = at::full({5}, -1, at::kInt); },
         "group_of_input: expected");
  expect([](auto& l) { l.group_size = 0; }, "group_size: expected -1 or at least 1, got 0");
  expect([](auto& l) { l.codes = l.codes.t().contiguous().t(); }, "contiguous");
}

QuantizedLinear ternary_example() {
  QuantizedLinear linear;
  linear.codes = at::tensor({0, 1, 2, 2, 0, 1, 1, 2, 0, 1}, at::kByte).reshape({2, 5});
  linear.levels = at::tensor({-1.f, 0.f, 2.f, -3.f, 0.f, 4.f, -5.f, 0.f, 6.f, -7.f, 0.f, 8.f})
                      .reshape({2, 2, 3});
  linear.bits = QuantConfig::kTernary;
  linear.group_size = 3;
  return linear;
}

TEST(QuantizedLinear, TernaryReadsItsLevels) {
  auto linear = ternary_example();
  linear.validate("layer");
  EXPECT_EQ(linear.groups(), 2);
  EXPECT_TRUE(
      at::equal(linear.dequantize(at::kFloat), matrix({{-1, 0, 2, 4, -3}, {0, 0, 6, -7, 0}})));
  linear.group_of_input = at::tensor({1, 0, 1, 0, 0}, at::kInt);
  EXPECT_TRUE(
      at::equal(linear.dequantize(at::kFloat), matrix({{-3, 0, 4, 2, -1}, {0, 0, 8, -5, 0}})));
  // 2 bits a code and two levels a group.
  EXPECT_EQ(ternary_example().stored_bits(16), 10 * 2 + 2 * 2 * 2 * 16);

  const auto expect = [](auto change, const char* text) {
    auto changed = ternary_example();
    change(changed);
    EXPECT_THAT([&] { changed.validate("layer"); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  expect([](auto& l) { l.codes.fill_(3); }, "codes: expected values of at most 2, got 3");
  expect([](auto& l) { l.levels = at::Tensor(); }, "levels: expected a tensor, got none");
  expect([](auto& l) { l.levels = -l.levels; }, "levels: expected finite {at most 0, 0, at least");
  expect([](auto& l) { l.levels[0][0][1] = 1; }, "levels: expected finite {at most 0, 0, at least");
  expect([](auto& l) { l.levels[0][0][2] = INFINITY; }, "levels: expected finite");
  expect([](auto& l) { l.scales = at::ones({2, 2}); }, "levels: expected neither scales nor zeros");
}

TEST(QuantConfig, ValidateNamesTheField) {
  QuantConfig{}.validate("quant");
  const auto expect = [](QuantConfig config, const char* text) {
    EXPECT_THAT([&] { config.validate("quant"); }, ThrowsMessage<Error>(HasSubstr(text)));
  };
  expect({.bits = 5}, "[quant.bits] expected 2, 3, 4, 8 or ternary, got 5");
  expect({.group_size = 0}, "[quant.group_size] expected -1 (the whole row) or at least 1, got 0");
  expect({.group_size = -2}, "[quant.group_size] expected");
  expect({.bits = QuantConfig::kTernary, .group_size = 7},
         "[quant.group_size] expected -1 or at least 8 for ternary, got 7");
  expect({.bits = QuantConfig::kTernary, .grid_search = GridSearch::kMse},
         "[quant.grid_search] expected none for ternary");
  expect({.grid_norm = 0}, "[quant.grid_norm] expected a positive number");
  expect({.grid_steps = 0}, "[quant.grid_steps] expected at least 1, got 0");
  expect({.grid_shrink = 1}, "[quant.grid_shrink] expected a number above 0 and below 1");
}

}  // namespace
}  // namespace gptqb::test
