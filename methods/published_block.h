// Blocks of columns of the published algorithm in one kernel, where a GPU and the settings allow
// it.
#pragma once

#include <ATen/ATen.h>

#include "methods/gptq_problem.h"

namespace gptqb {

// Whether solve_published_block() gives the bits of gptq_reference.cpp's steps: f32 on a GPU, codes
// rather than ternary levels, blocks of at most 128 columns, and grids that are known when a block
// begins (not those that compat.reference_group_grid: false fits in between).
bool can_solve_published_blocks(const SweepProblem& problem, const OrderedProblem& ordered);

// Quantizes columns [begin, begin + columns) of `weights` [rows, in] with their grids in `ordered`:
// fills them in `codes` [rows, in], adds to `losses` f64 [rows], and returns their errors (w - q) /
// U_jj, [rows, columns]. `factor` is U; `groups` group_of_position, i32 on the device.
at::Tensor solve_published_block(const SweepProblem& problem, const OrderedProblem& ordered,
                                 const at::Tensor& factor, const at::Tensor& groups, int64_t begin,
                                 int64_t columns, const at::Tensor& weights,
                                 const at::Tensor& codes, const at::Tensor& losses);

}  // namespace gptqb
