// x^T x on the CPU: the products of calibration.
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// upper_triangle(sum) += x^T x. `sum` f32 [in, in] contiguous, `x` [tokens, in] in any float dtype,
// widened to f32 (exactly); what is below the diagonal of `sum` means nothing afterwards. Half of
// the operations of a full product, dealt out to threads in tiles.
void add_second_moments_cpu(at::Tensor& sum, const at::Tensor& x);

}  // namespace gptqb
