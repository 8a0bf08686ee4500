// The factor from which both the left-looking sweep and OBQ's inverse are made.
#pragma once

#include <optional>

#include "methods/hessian.h"

namespace gptqb {

// R, upper triangular, with H = R R^T (shared/design/solver.md), [in, in] contiguous in the
// matrix's dtype; what is below its diagonal means nothing. Takes `prepared.matrix` away and works
// in its memory, so that two copies of H never stay. Empty if it fails; `failure.column` is then
// the position in sweep order.
//
// R is the ordinary Cholesky factor of H with rows and columns reversed, reversed back. On a GPU it
// is computed just so. On the CPU it grows from the last columns to the first, so that nothing is
// turned round but the diagonal blocks.
std::optional<at::Tensor> reversed_cholesky(PreparedHessian& prepared, FactorFailure& failure);

}  // namespace gptqb
