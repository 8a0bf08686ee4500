#include "methods/reversed_cholesky.h"

namespace gptqb {

std::optional<at::Tensor> reversed_cholesky(PreparedHessian& prepared, FactorFailure& failure) {
  const int64_t columns = prepared.matrix.size(0);
  const auto reversed = prepared.matrix.flip({0, 1});
  prepared.matrix.reset();
  auto lower = cholesky_lower(reversed, failure);
  if (!lower) failure.column = columns - 1 - failure.column;
  return lower;
}

}  // namespace gptqb
