// Inverses of the diagonal blocks of N, for the weights that group grids are fitted on: made once
// for all rows, since a triangular solve for the rows of each group would run far below the rate of
// a product. That the inverses of such small unit triangles are exact enough is held by the tests
// against the published algorithm.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace gptqb {

// (N^T)^-1 of the diagonal blocks of `triangle` (N, f32 or f64 [in, in]) that start at `begins` and
// are `size` columns wide, read above the diagonal, which counts as ones: [count, size, size].
at::Tensor invert_unit_blocks(const at::Tensor& triangle, const std::vector<int64_t>& begins,
                              int64_t size);

}  // namespace gptqb
