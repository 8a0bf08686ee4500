#include "methods/obq_problem.h"

#include <limits>

#include "methods/reversed_cholesky.h"

namespace gptqb {

std::optional<Factor> factorize_inverse(PreparedHessian prepared, FactorFailure& failure) {
  const auto upper = reversed_cholesky(prepared, failure);
  if (!upper) return std::nullopt;
  Factor factor;
  const auto inverse = at::cholesky_inverse(upper->flip({0, 1})).flip({0, 1});
  factor.triangle = ((inverse + inverse.t()) / 2).contiguous();
  factor.diagonal = upper->diagonal().clone();
  factor.prepared = std::move(prepared);
  return factor;
}

double smallest_obq_pivot(at::ScalarType dtype) {
  return 2 * (dtype == at::kDouble ? std::numeric_limits<double>::epsilon()
                                   : std::numeric_limits<float>::epsilon());
}

}  // namespace gptqb
