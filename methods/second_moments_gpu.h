// x^T x on a GPU: the products of calibration.
#pragma once

#include <ATen/ATen.h>

#include "methods/method_config.h"

namespace gptqb {

// upper_triangle(sum) += x^T x. `sum` f32 [in, in], `x` [tokens, in] in any float dtype, both on
// one GPU; what is below the diagonal of `sum` means nothing afterwards.
//
// kFp32, or inputs of 32 bits: float32 products. Else products of 16-bit inputs by tensor cores:
// each is exact in float32, but their sums are truncated where float32 products are rounded, so
// only so many tokens are summed there before the result is added, rounded, to `sum`: with kTf32x3
// few (tokens_per_sum), with kTf32 as many as there are.
void add_second_moments_gpu(at::Tensor& sum, const at::Tensor& x, ProductPrecision precision);

// Tokens that kTf32x3 sums at a time: few where `sum` [in, in] stays in the GPU's cache from one
// product to the next, more where it has to be read and written for each.
int64_t tokens_per_sum(int64_t in_features);

}  // namespace gptqb
