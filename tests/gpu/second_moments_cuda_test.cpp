// Second moments of 16-bit inputs on a GPU against float64.
#include <gtest/gtest.h>

#include "methods/second_moments_gpu.h"

namespace gptqb {
namespace {

// Largest error over the largest value, of inputs with features of very different sizes.
double error_of(int64_t features, at::ScalarType dtype, ProductPrecision precision) {
  at::manual_seed(features);
  const auto sizes = at::randn({features}).exp_();
  const auto x = (at::randn({20000, features}) * sizes).to(dtype).cuda();
  auto sum = at::zeros({features, features}, x.options().dtype(at::kFloat));
  add_second_moments_gpu(sum, x.narrow(0, 0, 7000), precision);
  add_second_moments_gpu(sum, x.narrow(0, 7000, 13000), precision);
  const auto wide = x.to(at::kDouble);
  const auto exact = at::mm(wide.t(), wide).triu();
  const auto difference = (sum.to(at::kDouble).triu() - exact).abs().max();
  return (difference / exact.max()).item<double>();
}

TEST(SecondMomentsCuda, EachPrecisionIsWithinItsBound) {
  for (const int64_t features : {1, 7, 64, 576, 1000, 2049, 2056, 2304, 4360, 6400})
    for (const auto dtype : {at::kHalf, at::kBFloat16}) {
      SCOPED_TRACE(std::to_string(features) + " " + at::toString(dtype));
      const double plain = error_of(features, dtype, ProductPrecision::kFp32);
      const double few = error_of(features, dtype, ProductPrecision::kTf32x3);
      const double many = error_of(features, dtype, ProductPrecision::kTf32);
      EXPECT_LT(plain, 4e-6);
      // Issue 5 asks for 2e-5; float32 products, of up to kNarrow columns, and cuBLAS do better.
      EXPECT_LT(few, features > kNarrow && features % 8 == 0 ? 2e-5 : 5e-6);
      EXPECT_LT(many, 1e-4);
    }
}

// Small enough for compute-sanitizer: tiles and stages that are cut off everywhere.
TEST(SecondMomentsCuda, TakesOddShapes) {
  for (const int64_t features : {8, 72, 192, 200, 264, 520})
    for (const int64_t tokens : {1, 63, 64, 65, 1000}) {
      SCOPED_TRACE(std::to_string(tokens) + " x " + std::to_string(features));
      at::manual_seed(features + tokens);
      const auto x = at::randn({tokens, features}).to(at::kHalf).cuda();
      const auto before = at::randn({features, features}).cuda();
      auto sum = before.clone();
      add_second_moments_gpu(sum, x, ProductPrecision::kTf32);
      const auto wide = x.to(at::kDouble);
      const auto exact = (before.to(at::kDouble) + at::mm(wide.t(), wide)).triu();
      EXPECT_LT((sum.to(at::kDouble).triu() - exact).abs().max().item<double>(),
                1e-5 * exact.abs().max().item<double>());
    }
}

TEST(SecondMomentsCuda, Float32InputsKeepFloat32Products) {
  at::manual_seed(1);
  const auto x = at::randn({3000, 300}).cuda();
  auto sum = at::zeros({300, 300}, x.options());
  add_second_moments_gpu(sum, x, ProductPrecision::kTf32);
  const auto wide = x.to(at::kDouble);
  EXPECT_TRUE(at::allclose(sum.to(at::kDouble).triu(), at::mm(wide.t(), wide).triu(), 1e-4, 1e-2));
}

// One cluster owns a tile, and a second kernel adds what was split, in order.
TEST(SecondMomentsCuda, TwoRunsGiveTheSameBits) {
  at::manual_seed(3);
  const auto x = at::randn({40000, 4096}, at::kFloat).to(at::kHalf).cuda();
  const auto run = [&] {
    auto sum = at::zeros({4096, 4096}, x.options().dtype(at::kFloat));
    add_second_moments_gpu(sum, x, ProductPrecision::kTf32x3);
    return sum.triu();
  };
  const auto first = run();
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(at::equal(run(), first));
}

}  // namespace
}  // namespace gptqb
