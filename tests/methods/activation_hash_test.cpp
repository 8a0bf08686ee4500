#include "methods/activation_hash.h"

#include <gtest/gtest.h>

namespace gptqb {
namespace {

at::Tensor values() {
  at::manual_seed(3);
  return at::randn({5, 7, 9});
}

TEST(ActivationHash, DependsOnTheValuesAlone) {
  const auto x = values();
  EXPECT_EQ(activation_hash(x), activation_hash(x.clone()));
  EXPECT_EQ(activation_hash(x.transpose(0, 2)), activation_hash(x.transpose(0, 2).contiguous()));
}

TEST(ActivationHash, ChangesWithOneBitOfOneValueInEveryDtype) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble}) {
    const auto x = values().to(dtype);
    const auto hash = activation_hash(x);
    for (const int64_t place : {0, 100, 314}) {
      auto changed = x.clone();
      auto bits = changed.view({-1}).view(dtype == at::kDouble  ? at::kLong
                                          : dtype == at::kFloat ? at::kInt
                                                                : at::kShort);
      bits[place].bitwise_xor_(1);
      EXPECT_NE(activation_hash(changed), hash) << dtype << " " << place;
    }
  }
}

TEST(ActivationHash, ChangesWhereValuesTradePlacesOrPartsDo) {
  const auto x = values();
  auto swapped = x.clone();
  swapped[0][0][0] = x[0][0][1];
  swapped[0][0][1] = x[0][0][0];
  EXPECT_NE(activation_hash(swapped), activation_hash(x));
  const auto a = x[0], b = x[1];
  EXPECT_NE(activation_hash(b, activation_hash(a)), activation_hash(a, activation_hash(b)));
  EXPECT_NE(activation_hash(at::zeros({4})), activation_hash(at::zeros({5})));
}

// Kept blocks of one build are checked by the next: the value itself must not change. Computed with
// Python's integers from the definition in kernels/word_hash.h.
TEST(ActivationHash, IsTheSameInEveryBuild) {
  EXPECT_EQ(activation_hash(at::tensor({1.0, -2.0, 0.5}, at::kFloat), 5), 0xfe5e828e989b28ebULL);
}

}  // namespace
}  // namespace gptqb
