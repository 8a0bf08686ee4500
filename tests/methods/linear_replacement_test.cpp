#include "methods/linear_replacement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/support/message.h"

namespace gptqb {
namespace {

using test::message_of;
using testing::HasSubstr;

// Two rows of four columns in two groups: weights {-8 .. -5, 0 .. 3} * 0.5.
QuantizedLinear some_codes() {
  QuantizedLinear linear;
  linear.bits = 4;
  linear.group_size = 2;
  linear.codes = at::tensor({0, 1, 2, 3, 8, 9, 10, 11}, at::kByte).reshape({2, 4});
  linear.scales = at::full({2, 2}, 0.5, at::kFloat);
  linear.zeros = at::full({2, 2}, 8, at::kByte);
  return linear;
}

const at::Tensor& code_weights() {
  static const at::Tensor weights =
      at::tensor({-4.0, -3.5, -3.0, -2.5, 0.0, 0.5, 1.0, 1.5}, at::kDouble).reshape({2, 4});
  return weights;
}

TEST(LinearReplacement, EffectiveWeightsTakeTheInputTransformIn) {
  const auto x = at::tensor({1.0, -2.0, 3.0, 0.5}, at::kDouble);
  const auto vector = at::tensor({1.0, 2.0, 0.5, 4.0}, at::kFloat);
  const auto matrix = at::arange(16, at::kFloat).reshape({4, 4}) / 8;
  const auto product = [&](const LinearReplacement& replacement) {
    return at::mv(replacement.effective_weights(at::kDouble), x);
  };
  EXPECT_TRUE(at::allclose(product(some_codes()), at::mv(code_weights(), x)));
  EXPECT_TRUE(at::allclose(product(TransformedLinear{some_codes(), vector}),
                           at::mv(code_weights(), vector.to(at::kDouble) * x)));
  EXPECT_TRUE(at::allclose(product(TransformedLinear{some_codes(), matrix}),
                           at::mv(code_weights(), at::mv(matrix.to(at::kDouble), x))));
  EXPECT_TRUE(
      at::allclose(product(DenseWeights{code_weights().to(at::kHalf)}), at::mv(code_weights(), x)));
}

TEST(LinearReplacement, StoredBitsCountWhatIsStored) {
  // 8 codes of 4 bits, 4 scales of 16 bits, 4 zeros of 4 bits.
  constexpr int64_t kCodes = 8 * 4 + 4 * 16 + 4 * 4;
  EXPECT_EQ(LinearReplacement(some_codes()).stored_bits(16), kCodes);
  EXPECT_EQ(LinearReplacement(TransformedLinear{some_codes(), at::ones({4})}).stored_bits(16),
            kCodes + 4 * 32);
  EXPECT_EQ(LinearReplacement(DenseWeights{at::ones({2, 4}, at::kHalf)}).stored_bits(16), 8 * 16);
}

TEST(LinearReplacement, WhatDoesNotFitIsRefusedByName) {
  const auto message = [](const LinearReplacement& replacement) {
    return message_of([&] { replacement.validate("a.layer"); });
  };
  EXPECT_THAT(message(TransformedLinear{some_codes(), at::ones({3})}),
              HasSubstr("[a.layer] input_transform: expected f32 [4] or [4, 4]"));
  EXPECT_THAT(message(TransformedLinear{some_codes(), at::ones({4}, at::kDouble)}),
              HasSubstr("input_transform: expected f32"));
  EXPECT_THAT(message(TransformedLinear{some_codes(), at::full({4}, NAN)}),
              HasSubstr("input_transform: expected finite values"));
  EXPECT_THAT(message(DenseWeights{at::full({2, 4}, INFINITY)}),
              HasSubstr("weights: expected finite values"));
  EXPECT_THAT(message(DenseWeights{at::ones({4}, at::kInt)}),
              HasSubstr("weights: expected a matrix [out, in] of floats"));
}

}  // namespace
}  // namespace gptqb
