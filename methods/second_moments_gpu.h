// x^T x on a GPU by tensor cores, for inputs of 16 bits.
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// upper_triangle(sum) += x^T x for `x` [tokens, in] f16 or bf16 and `sum` f32 [in, in], both on one
// GPU. Products of two such numbers are exact in float32. A tensor core truncates its sums where a
// float32 product rounds them, so only `tokens_per_sum` tokens are summed there before the
// result is added, rounded, to `sum`.
void add_second_moments_gpu(at::Tensor& sum, const at::Tensor& x, int64_t tokens_per_sum);

// Tokens to sum at a time: few where `sum` [in, in] stays in the GPU's cache between two products,
// more where it has to be read and written for each.
int64_t tokens_per_sum(int64_t in_features);

}  // namespace gptqb
