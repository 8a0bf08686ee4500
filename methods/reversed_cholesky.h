// The factor from which both the left-looking sweep and OBQ's inverse are made.
#pragma once

#include <optional>

#include "methods/hessian.h"

namespace gptqb {

// Lower Cholesky factor of H with rows and columns reversed (shared/design/solver.md), [in, in] in
// the matrix's dtype. Takes `prepared.matrix` away, so that two copies of H never stay. Empty if it
// fails; `failure.column` is then the position in sweep order.
std::optional<at::Tensor> reversed_cholesky(PreparedHessian& prepared, FactorFailure& failure);

}  // namespace gptqb
