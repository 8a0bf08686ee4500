// Quadratic forms on tensor cores against float64.
#include <gtest/gtest.h>

#include "methods/quadratic_form.h"

namespace gptqb {
namespace {

// H of inputs with features of very different sizes that depend on each other, f64 [n, n].
at::Tensor hessian(int64_t n) {
  const auto sizes = at::randn({n}, at::kDouble).mul_(1.5).exp_();
  const auto mixed = at::randn({n, n}, at::kDouble).add_(at::randn({n, 1}, at::kDouble), 2);
  const auto x = mixed * sizes;
  return at::mm(x.t(), x).cuda();
}

double difference(const at::Tensor& e, const at::Tensor& h) {
  const double exact = quadratic_form(e, h);
  return rounded_quadratic_form(e.to(at::kFloat), h.to(at::kFloat)) / exact - 1;
}

TEST(QuadraticFormCuda, HasFourDigitsOfAnyError) {
  at::manual_seed(11);
  for (const int64_t n : {64, 1000, 2100})
    for (const int64_t rows : {48, 3000}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(n));
      const auto h = hessian(n);
      const auto e = at::randn({rows, n}, h.options());
      for (const double scale : {1e-6, 1.0, 1e4}) EXPECT_NEAR(difference(e * scale, h), 0, 2e-4);
    }
}

// GPTQ leaves errors whose effects cancel: E H E^T far below what its terms add up to.
TEST(QuadraticFormCuda, HasFourDigitsWhereErrorsCancel) {
  at::manual_seed(12);
  constexpr int64_t kColumns = 1500;
  const auto h = hessian(kColumns);
  const auto damped = h + 0.01 * h.diagonal().mean() * at::eye(kColumns, h.options());
  const auto root = at::linalg_cholesky(damped);
  // Errors whose outputs are white, as those of a perfect rounding of outputs would be.
  const auto e = at::linalg_solve_triangular(root, at::randn({2000, kColumns}, h.options()),
                                             /*upper=*/false, /*left=*/false);
  EXPECT_NEAR(difference(e, damped), 0, 5e-4);
}

TEST(QuadraticFormCuda, OfNothingIsZeroAndOfNotANumberIsNotANumber) {
  const auto h = at::eye(70, at::TensorOptions().dtype(at::kFloat).device(at::kCUDA));
  auto e = at::zeros({3, 70}, h.options());
  EXPECT_EQ(rounded_quadratic_form(e, h), 0);
  e[1][5] = NAN;
  EXPECT_TRUE(std::isnan(rounded_quadratic_form(e, h)));
}

}  // namespace
}  // namespace gptqb
