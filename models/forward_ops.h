// Small operations of a forward pass, in one kernel each where the tensors lie on a GPU in half
// precision, and in tensor operations elsewhere. Both give the same bits: each product is rounded
// to the model's dtype by itself, as transformers does.
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// The square of each value in f32, the start of an RMS norm.
at::Tensor squares(const at::Tensor& x);

// round(round(x * inverse) * scale): the end of an RMS norm. `x` [.., width] in the model's dtype,
// `inverse` f32 [.., 1], `scale` [width] in the model's dtype. A new tensor.
at::Tensor scale_rows(const at::Tensor& x, const at::Tensor& inverse, const at::Tensor& scale);

// Of each vector (low, high) of x [sequences, seqlen, heads, head_dim]: (low cos - high sin, high
// cos + low sin). `cosines` and `sines` [seqlen, head_dim / 2] in the dtype of x. A new tensor.
at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines);

// gate = silu(gate) * up, in place; both of one shape and dtype.
void silu_multiply(at::Tensor& gate, const at::Tensor& up);

}  // namespace gptqb
