#include "methods/hessian.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "common/error.h"
#include "common/random.h"
#include "methods/column_layout.h"

namespace gptqb {

at::ScalarType scalar_type(ComputeDtype compute) {
  return compute == ComputeDtype::kFloat64 ? at::kDouble : at::kFloat;
}

void check_calibration(const CalibrationStats& stats, const at::Tensor& h,
                       const std::string& layer) {
  if (stats.non_finite_inputs() > 0)
    throw Error(layer,
                "expected finite activations, got " + std::to_string(stats.non_finite_inputs()) +
                    " NaN or infinite values, the first in calibration window " +
                    std::to_string(stats.first_non_finite_sequence()) + ", input column " +
                    std::to_string(stats.first_non_finite_column()) +
                    ". The model overflows before this layer: run it in a wider model.dtype");
  const auto diagonal = h.diagonal().isfinite();
  if (!diagonal.all().item<bool>())
    throw Error(layer, "expected squared activations that fit float32, got an overflow in column " +
                           std::to_string(diagonal.to(at::kInt).argmin().item<int64_t>()) +
                           ". Inputs of this size are a fault of the model or its dtype");
}

namespace {

// random.Random(seed).shuffle(list(range(count))) of CPython, so that a seed means the same
// everywhere.
at::Tensor random_permutation(int64_t count, int64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  PythonRandom random(static_cast<uint64_t>(seed));
  for (int64_t i = count - 1; i > 0; --i)
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(random.randint(0, i))]);
  return at::tensor(order, at::kLong);
}

// Input column of each position, i64 [in] on the diagonal's device; undefined: natural order.
at::Tensor column_order(const at::Tensor& diagonal, const MethodConfig& method) {
  switch (method.order_or(ColumnOrder::kNatural)) {
    case ColumnOrder::kNatural:
    case ColumnOrder::kGreedy:
      break;
    case ColumnOrder::kAct:
      return at::argsort(diagonal, /*stable=*/true, /*dim=*/0, /*descending=*/true);
    case ColumnOrder::kReverse:
      return at::arange(diagonal.size(0), diagonal.options().dtype(at::kLong)).flip(0);
    case ColumnOrder::kRandom:
      return random_permutation(diagonal.size(0), method.order_seed).to(diagonal.device());
  }
  return {};
}

}  // namespace

PreparedHessian prepare_hessian(const at::Tensor& h, double damping, const MethodConfig& method) {
  const auto compute = scalar_type(method.compute);
  PreparedHessian result;
  auto diagonal = h.diagonal();
  result.dead = diagonal == 0;
  result.dead_columns = result.dead.sum().item<int64_t>();
  diagonal = diagonal.masked_fill(result.dead, 1).to(compute);

  result.order = column_order(diagonal, method);
  if (result.order.defined()) {
    result.matrix = permute_both(h, result.order, compute);
    diagonal = diagonal.index_select(0, result.order);
  } else {
    result.matrix = h.to(compute, /*non_blocking=*/false, /*copy=*/true);
  }
  // As a tensor, after the permutation: the published code rounds the damping to f32 just so.
  result.matrix.diagonal().copy_(diagonal + diagonal.mean() * damping);
  return result;
}

namespace {

std::optional<at::Tensor> cholesky(const at::Tensor& matrix, const at::Tensor& diagonal, bool upper,
                                   FactorFailure& failure) {
  auto [triangle, info] = at::linalg_cholesky_ex(matrix, upper);
  const int64_t minor = info.item<int64_t>();
  if (minor > 0) {
    failure.column = minor - 1;
    return std::nullopt;
  }
  const double epsilon = matrix.scalar_type() == at::kDouble
                             ? std::numeric_limits<double>::epsilon()
                             : std::numeric_limits<float>::epsilon();
  const auto pivots = triangle.diagonal().square();
  // Written so that a NaN, which GPU libraries may leave behind without saying so, is not good
  // either.
  const auto good = pivots > diagonal * (2 * epsilon);
  if (!good.all().item<bool>()) {
    failure.column = good.to(at::kInt).argmin().item<int64_t>();
    return std::nullopt;
  }
  return triangle;
}

}  // namespace

std::optional<at::Tensor> cholesky_lower(const at::Tensor& matrix, FactorFailure& failure) {
  return cholesky(matrix, matrix.diagonal(), false, failure);
}

std::optional<at::Tensor> cholesky_lower(const at::Tensor& matrix, const at::Tensor& diagonal,
                                         FactorFailure& failure) {
  return cholesky(matrix, diagonal, false, failure);
}

std::optional<at::Tensor> cholesky_upper(const at::Tensor& matrix, FactorFailure& failure) {
  return cholesky(matrix, matrix.diagonal(), true, failure);
}

double condition_estimate(const Factor& factor) {
  const double ratio = (factor.diagonal.max() / factor.diagonal.min()).item<double>();
  return ratio * ratio;
}

}  // namespace gptqb
