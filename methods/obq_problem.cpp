#include "methods/obq_problem.h"

#include <limits>

namespace gptqb {

std::optional<Factor> factorize_inverse(PreparedHessian prepared, FactorFailure& failure) {
  const int64_t columns = prepared.matrix.size(0);
  const auto reversed = prepared.matrix.flip({0, 1});
  prepared.matrix.reset();
  const auto lower = cholesky_lower(reversed, failure);
  if (!lower) {
    failure.column = columns - 1 - failure.column;
    return std::nullopt;
  }
  Factor factor;
  const auto inverse = at::cholesky_inverse(*lower).flip({0, 1});
  factor.triangle = ((inverse + inverse.t()) / 2).contiguous();
  factor.diagonal = lower->diagonal().flip({0}).contiguous();
  factor.prepared = std::move(prepared);
  return factor;
}

double smallest_obq_pivot(at::ScalarType dtype) {
  return 2 * (dtype == at::kDouble ? std::numeric_limits<double>::epsilon()
                                   : std::numeric_limits<float>::epsilon());
}

}  // namespace gptqb
