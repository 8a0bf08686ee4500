// What lies between the products of weights in a step that writes one token of each sequence: one
// kernel each on a GPU in half precision (kernels/decode.h).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "models/kv_cache.h"

namespace gptqb {

// The norm of a row: RMS norm (models/forward_ops.h) or layer norm.
struct Norm {
  at::Tensor scale = {};  // [width] in the model's dtype; a layer norm may have none
  at::Tensor shift = {};  // [width]; of a layer norm with a scale only
  double epsilon = 0;
  bool rms = false;
};

// The norm of x [.., width], a new tensor: of one token a sequence on a GPU as add_norm() does it,
// else in the tensor operations of a forward pass.
at::Tensor apply_norm(const at::Tensor& x, const Norm& norm);

// Whether add_norm() takes rows of `width` values.
bool add_norm_takes(at::Device device, at::ScalarType dtype, int64_t width);

// residual = residual + delta, in place; returns the norm of that. Both [.., width], contiguous;
// `delta` undefined: nothing is added. Rounds where tensor operations round; sums in another order.
at::Tensor add_norm(at::Tensor& residual, const at::Tensor& delta, const Norm& norm);

// Where each row of x [rows, columns] has its largest value, the first place of several: i64 [rows,
// 1].
at::Tensor largest_places(const at::Tensor& x);

// x = max(x, 0) in place.
void relu_in_place(at::Tensor& x);

// One new token of each sequence, as a block's linears left it.
struct NewTokens {
  at::Tensor queries = {};  // [batch, 1, heads, head_dim]; any strides with values side by side
  at::Tensor keys = {};     // [batch, 1, kv_heads, head_dim]
  at::Tensor values = {};
  // By which queries and keys are rotated, [1, head_dim / 2] in the model's dtype; undefined: they
  // are not.
  at::Tensor cosines = {};
  at::Tensor sines = {};
  at::Tensor slopes = {};  // f32 [heads], of ALiBi; undefined: none
  double query_scale = 1;  // of queries, which are rounded then
  double score_scale = 1;  // of scores, which are float32
};

// Whether attend_new_tokens() takes heads of this size.
bool new_tokens_attention_takes(at::Device device, at::ScalarType dtype, int64_t head_dim);

// Attention of the tokens that `cache` was extended by, one a sequence, to all it holds in `block`;
// it takes their keys and values. [batch, 1, heads * head_dim].
at::Tensor attend_new_tokens(KvCache& cache, int64_t block, const NewTokens& tokens);

}  // namespace gptqb
