// x^T x on a GPU: the products of calibration.
#pragma once

#include <ATen/ATen.h>

#include "methods/method_config.h"

namespace gptqb {

// upper_triangle(sum) += x^T x. `sum` f32 [in, in], `x` [tokens, in] in any float dtype, both on
// one GPU; what is below the diagonal of `sum` means nothing afterwards.
//
// kFp32, or inputs of 32 bits: float32 products. Else products of 16-bit inputs by tensor cores:
// each is exact in float32, but their sums are truncated where float32 products are rounded. So
// with kTf32x3 they are added, rounded, to a total every kTokensPerSum tokens, or where cuBLAS
// computes them, kTokensPerProduct; and up to kNarrow columns, where that costs more than it saves,
// products are float32. kTf32 does neither. Inputs whose width is a multiple of 8 take our own
// kernel on compute capability 9.0, and cuBLAS elsewhere.
constexpr int64_t kTokensPerSum = 3072;
constexpr int64_t kTokensPerProduct = 2048;
constexpr int64_t kNarrow = 2048;
void add_second_moments_gpu(at::Tensor& sum, const at::Tensor& x, ProductPrecision precision);

}  // namespace gptqb
