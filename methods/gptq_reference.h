// GPTQ as the paper prints it (Algorithm 1), one step after another; the yardstick for gptq_fast.h.
#pragma once

#include <optional>

#include "methods/gptq_problem.h"

namespace gptqb {

// U, the upper Cholesky factor of H^-1 (H^-1 = U^T U), from `prepared`: Cholesky of H, inverse,
// Cholesky of the inverse (paper section 3.3, step 3). Nothing, and the failing column, if H is not
// positive definite.
std::optional<Factor> factorize_reference(PreparedHessian prepared, FactorFailure& failure);

// Codes, grids and loss of `problem` with a factor of factorize_reference(). Blocks of columns take
// one kernel each where methods/published_block.h can give the same bits so, unless `step_by_step`.
SweepResult sweep_reference(const SweepProblem& problem, const Factor& factor,
                            bool step_by_step = false);

}  // namespace gptqb
