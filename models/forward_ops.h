// Small operations of a forward pass, in one kernel each where the tensors lie on a GPU in half
// precision, and in tensor operations elsewhere. Both give the same bits: each product is rounded
// to the model's dtype by itself, as transformers does.
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// RMS norm over the last dimension: normalized in f32, rounded to the model's dtype, then scaled in
// it. `x` [.., width] and `scale` [width] in the model's dtype. A new tensor.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& scale, double epsilon);

// Of each vector (low, high) of x [sequences, seqlen, heads, head_dim]: (low cos - high sin, high
// cos + low sin). `cosines` and `sines` [seqlen, head_dim / 2] in the dtype of x. A new tensor.
at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines);

// silu(gate) * up; both of one shape and dtype. May be computed in the memory of `gate`. Rows of
// both may lie apart, equally far, as parts of one product's.
at::Tensor silu_multiply(at::Tensor gate, const at::Tensor& up);

// x = x (1 + tanh(0.79788456 x (1 + 0.044715 x x))) / 2, in place: transformers' BloomGelu,
// operation by operation, which in half precision is not what ATen's gelu gives.
void bloom_gelu(at::Tensor& x);

// Softmax of scores [matrices, rows, columns] in place, contiguous: of row r over columns 0 ..
// first
// + r, computed in f32 and rounded once; 0 beyond. On a GPU sums are taken in another order than
// ATen's, which can change the last bit.
void causal_softmax(at::Tensor& scores, int64_t first);

}  // namespace gptqb
