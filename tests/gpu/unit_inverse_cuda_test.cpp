#include <gtest/gtest.h>

#include <vector>

#include "methods/unit_inverse.h"

namespace gptqb {
namespace {

// Against a solve in float64; the largest entries of the inverses are about one.
TEST(UnitInverseCuda, InvertsEveryBlock) {
  at::manual_seed(6);
  const auto n = at::randn({400, 400}, at::kDouble) * 0.05;
  for (const int64_t size : {1, 2, 5, 31, 32, 33, 100, 127, 128}) {
    const std::vector<int64_t> begins = {0, 3, 128, 272};
    const auto inverses = invert_unit_blocks(n.to(at::kFloat).cuda(), begins, size).cpu();
    ASSERT_EQ(inverses.sizes(), (std::vector<int64_t>{4, size, size}));
    for (size_t k = 0; k < begins.size(); ++k) {
      const auto block =
          n.slice(0, begins[k], begins[k] + size).slice(1, begins[k], begins[k] + size);
      const auto expected = at::linalg_inv(block.triu(1) + at::eye(size, at::kDouble)).t();
      EXPECT_TRUE(
          at::allclose(inverses[static_cast<int64_t>(k)].to(at::kDouble), expected, 1e-5, 1e-5))
          << size << " at " << begins[k];
    }
  }
}

}  // namespace
}  // namespace gptqb
