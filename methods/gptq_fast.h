// GPTQ without an inverse: the same codes from one Cholesky factorization (shared/design/solver.md
// has the derivation).
//
// Let H = R R^T with R upper triangular, N = R with each column divided by its diagonal element,
// and E = W - Q. Then column i is quantized from t_i = W_i + E[:, :i] N[:i, i], and the loss is 1/2
// sum(((t_i - Q_i) R_ii)^2). This is Algorithm 1 of the paper with U = R^-1, read column by column:
// what all earlier errors do to a column is one product.
//
// The products are done by halving: solve the left half of the columns, carry its errors to the
// right half in one matrix product, solve the right half. At 32 columns on a CPU and 128 on a GPU a
// fused kernel takes over (kernels/solver.h).
#pragma once

#include <optional>

#include "methods/gptq_problem.h"

namespace gptqb {

// N and the diagonal of R: one Cholesky factorization of H with rows and columns reversed.
// Nothing, and the failing column, if H is not positive definite.
std::optional<Factor> factorize_fast(PreparedHessian prepared, FactorFailure& failure);

// Codes, grids and loss of `problem` with a factor of factorize_fast(), on the device of the
// weights.
SweepResult sweep_fast(const SweepProblem& problem, const Factor& factor);

}  // namespace gptqb
