// What both GPTQ solvers take and give, and the little they share: which grid a column uses, and
// putting columns back into natural order.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <string>

#include "methods/grid.h"
#include "methods/hessian.h"

namespace gptqb {

// One linear. `weights` [rows, in] in the compute dtype, natural column order, as loaded.
struct SweepProblem {
  std::string layer;
  at::Tensor weights;
  GridRule rule;
  MethodConfig method;
  CompatPolicy compat;
};

struct SweepResult {
  QuantizedLinear quantized;  // natural column order
  double loss = 0;            // 1/2 sum ((w - q) / U_ii)^2
  // Of inverse updates: f64 [in], U_ii^2 as the updated inverse had it, and the position in sweep
  // order at which it had none to give; codes and loss then mean nothing.
  at::Tensor pivots = {};
  std::optional<int64_t> lost_pivot = std::nullopt;
};

// A problem in sweep order, its fixed grids fitted.
struct OrderedProblem {
  at::Tensor weights;    // [rows, in], permuted, dead columns cleared
  int64_t width = 0;     // columns per group
  bool dynamic = false;  // grids are fitted during the sweep, group by group in sweep order
  Grid grids;            // [rows, groups]; empty tensors of that shape if dynamic
  // i32 [in] on the CPU: column of `grids` for each position of the sweep.
  at::Tensor group_of_position;
};

// Dead columns are cleared (before whole-row grids are fitted, or after with
// reference_dead_columns), columns are permuted, and grids that do not depend on the sweep are
// fitted: whole rows and static groups.
OrderedProblem order_problem(const SweepProblem& problem, const PreparedHessian& prepared);

// Its parts, for a sweep that puts the weights in order itself: `problem.weights` with dead columns
// cleared, natural order; and all of an OrderedProblem but its weights. `live`: those.
at::Tensor live_weights(const SweepProblem& problem, const PreparedHessian& prepared);
OrderedProblem order_grids(const SweepProblem& problem, const PreparedHessian& prepared,
                           const at::Tensor& live);

// The canonical form of a finished sweep. `codes` [rows, in] in sweep order, any dtype.
// Throws Error naming the layer for scales that overflow.
QuantizedLinear collect(const SweepProblem& problem, const PreparedHessian& prepared,
                        const OrderedProblem& ordered, const at::Tensor& codes);
// The same for codes u8 [rows, in] in natural order.
QuantizedLinear collect_natural(const SweepProblem& problem, const PreparedHessian& prepared,
                                const OrderedProblem& ordered, const at::Tensor& codes);

}  // namespace gptqb
