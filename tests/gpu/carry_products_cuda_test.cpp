// The solver's products on a GPU against float64, in each precision.
#include <gtest/gtest.h>

#include "methods/carry_products.h"

namespace gptqb {
namespace {

// Largest error over the largest value, after carrying [0, 256) and then [256, 700) to the end.
double error_of(ProductPrecision precision) {
  constexpr int64_t kColumns = 1500;
  constexpr int64_t kRows = 3000;  // beyond what counts as a small product
  at::manual_seed(4);
  const auto factor = at::randn({kColumns, kColumns}, at::kDouble).cuda();
  const auto errors = at::randn({kColumns, kRows}, factor.options());
  const auto exact = at::mm(factor.slice(0, 0, 700).slice(1, 700).t(), errors.slice(0, 0, 700));
  const auto carried = at::zeros({kColumns, kRows}, factor.options().dtype(at::kFloat));
  CarryProducts products(factor.to(at::kFloat), errors.to(at::kFloat), carried, precision);
  products.carry(0, 256, kColumns);
  products.carry(256, 700, kColumns);
  const auto difference = (carried.slice(0, 700).to(at::kDouble) - exact).abs().max();
  return (difference / exact.abs().max()).item<double>();
}

TEST(CarryProductsCuda, Tf32x3IsAsExactAsFloat32AndTf32IsNot) {
  const double plain = error_of(ProductPrecision::kFp32);
  const double split = error_of(ProductPrecision::kTf32x3);
  const double rounded = error_of(ProductPrecision::kTf32);
  EXPECT_LT(plain, 2e-6);
  EXPECT_LT(split, 4e-6);
  EXPECT_GT(rounded, 20 * split);
  EXPECT_LT(rounded, 2e-3);
}

TEST(DotProductCuda, SumsInFloat64OverStridedMatrices) {
  at::manual_seed(6);
  for (const int64_t rows : {1, 7, 1500})
    for (const int64_t columns : {1, 255, 1024, 1025, 3000}) {
      const auto a = at::randn({rows, columns + 5}, at::kFloat).cuda().narrow(1, 3, columns);
      const auto b = at::randn({rows, columns}, at::kFloat).cuda();
      const auto exact = (a.to(at::kDouble) * b.to(at::kDouble)).sum().item<double>();
      const auto size = (a.to(at::kDouble) * b.to(at::kDouble)).abs().sum().item<double>();
      EXPECT_NEAR(dot_product(a, b).item<double>(), exact, 1e-13 * size) << rows << " " << columns;
    }
}

}  // namespace
}  // namespace gptqb
