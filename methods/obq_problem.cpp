#include "methods/obq_problem.h"

#include <limits>

#include "methods/reversed_cholesky.h"

namespace gptqb {

std::optional<Factor> factorize_inverse(PreparedHessian prepared, FactorFailure& failure) {
  const auto lower = reversed_cholesky(prepared, failure);
  if (!lower) return std::nullopt;
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
