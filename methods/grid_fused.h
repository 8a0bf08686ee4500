// fit_grid in one kernel, for weights on a GPU: step by step it takes a dozen small kernels, and
// some thousand with a search.
#pragma once

#include "methods/grid.h"

namespace gptqb {

// Whether fit_grid_fused takes them: float32 on a GPU, by a rule that does not ask for the
// published order of operations.
bool can_fit_fused(const at::Tensor& weights, const GridRule& rule);

// As fit_grid_into, the tensors of `grid` contiguous; a candidate's errors are summed in another
// order.
void fit_grid_fused(const at::Tensor& weights, const GridRule& rule, const Grid& grid);

}  // namespace gptqb
