#include "methods/quadratic_form.h"

#include <algorithm>
#include <cmath>

#include "methods/sum_in_float32.h"
#include "methods/tf32.h"

namespace gptqb {
namespace {

// H is symmetric: products right of the diagonal panels count twice, which saves almost half of
// them.
constexpr int64_t kPanel = 1024;

// Calls add(begin, width) for the diagonal panels of an [n, n] matrix.
template <class Add>
void for_each_panel(int64_t n, const Add& add) {
  for (int64_t begin = 0; begin < n; begin += kPanel) add(begin, std::min(kPanel, n - begin));
}

double by_rows(const at::Tensor& e, const at::Tensor& h) {
  const int64_t n = h.size(0);
  double total = 0;
  for_each_panel(n, [&](int64_t begin, int64_t width) {
    const auto part = e.narrow(1, begin, width);
    const auto product = at::mm(part, h.narrow(0, begin, width).narrow(1, begin, n - begin));
    const auto terms = product.mul_(e.narrow(1, begin, n - begin)).sum(0, false, at::kDouble);
    total += (2 * terms.sum() - terms.narrow(0, 0, width).sum()).item<double>();
  });
  return total;
}

// As the sum of H_ij (E^T E)_ij: H stays as exact as it is, and products are long.
double by_tensor_cores(const at::Tensor& e, const at::Tensor& h) {
  const int64_t n = h.size(0);
  const double largest = e.abs().max().item<double>();
  if (!(largest > 0) || !std::isfinite(largest)) return largest == 0 ? 0 : std::nan("");
  // Near the top of float16, so that what lies 2^28 below is still rounded like the rest.
  const double scale = std::ldexp(1.0, std::min(14 - std::ilogb(largest), 126));
  auto rounded = at::empty(e.sizes(), e.options().dtype(at::kHalf));
  at::mul_out(rounded, e, at::scalar_tensor(scale, e.options()));
  const SumInFloat32 exact;
  auto total = at::zeros({}, h.options().dtype(at::kDouble));
  for_each_panel(n, [&](int64_t begin, int64_t width) {
    const int64_t rest = n - begin - width;
    const auto moments = at::mm(rounded.narrow(1, begin, width).t(),
                                rounded.narrow(1, begin, n - begin), at::kFloat);
    const auto rows = h.narrow(0, begin, width);
    total += dot_product(moments.narrow(1, 0, width), rows.narrow(1, begin, width));
    if (rest > 0)
      total += 2 * dot_product(moments.narrow(1, width, rest), rows.narrow(1, begin + width, rest));
  });
  return total.item<double>() / (scale * scale);
}

}  // namespace

double quadratic_form(const at::Tensor& e, const at::Tensor& h) { return by_rows(e, h); }

double rounded_quadratic_form(const at::Tensor& e, const at::Tensor& h) {
  if (h.is_cuda() && h.scalar_type() == at::kFloat) return by_tensor_cores(e, h);
  return by_rows(e, h);
}

}  // namespace gptqb
