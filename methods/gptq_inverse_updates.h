// GPTQ after the paper's second step and before its third (section 3.3): blocks of columns on an
// inverse Hessian that is updated again and again. In exact arithmetic it gives the codes of
// Algorithm 1; in float32 the matrix inversion in equations 4 and 5 lets errors grow until the
// inverse is no longer positive definite, which the Cholesky form is there to prevent. Kept for the
// ablation of the paper's steps, not for speed.
#pragma once

#include "methods/gptq_problem.h"

namespace gptqb {

// `factor` from factorize_inverse(). With F the columns that are left and Q those of a block,
// inside a block one column after another (equation 3 for the inverse),
//   w <- w - (w_i - q_i) / A_ii A[i, :],   A <- A - A[:, i] A[i, :] / A_ii,
// and for all columns behind it at once (equations 4 and 5)
//   W <- W - (W_Q - quant(W_Q)) (A_QQ)^-1 A[Q, :],   A <- A - A[:, Q] (A_QQ)^-1 A[Q, :].
// Blocks of one column are OBQ's update. A pivot A_ii that is not positive, or that rounding has
// left without information (smallest_obq_pivot), ends the sweep: SweepResult::lost_pivot.
SweepResult sweep_inverse_updates(const SweepProblem& problem, const Factor& factor);

}  // namespace gptqb
