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
// with kTf32x3 the result is added, rounded, to `sum` every kTokensPerSum tokens; and up to
// kNarrow columns, where that costs more than it saves, products are float32. kTf32 does neither.
// Inputs of 16 bits whose width is a multiple of 8 take our own kernel on compute capability 9.0,
// and cuBLAS elsewhere. Measured on an H200 against float64, of the largest value: float32 at
// most 1.8e-6, kTf32x3 2e-6, kTf32 3e-5.
constexpr int64_t kTokensPerSum = 2048;
constexpr int64_t kNarrow = 2048;
void add_second_moments_gpu(at::Tensor& sum, const at::Tensor& x, ProductPrecision precision);

}  // namespace gptqb
