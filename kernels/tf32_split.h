// Splits float32 values in two that TF32 holds (methods/tf32.h), and sums products of values in
// float64: what quadratic forms and products on tensor cores need around them, in one pass each.
// Raw pointers to memory of the current device; work is queued on `stream` (a cudaStream_t). Throw
// Error if a launch fails, or in a build without CUDA.
#pragma once

#include <cstdint>

namespace gptqb::kernels {

// high + low = values, `high` being the nearest number that TF32 holds.
struct Tf32Split {
  const float* values = nullptr;  // (i, j) at i * stride + j
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t stride = 0;
  float* high = nullptr;  // out [rows, columns]
  float* low = nullptr;   // out [rows, columns]
};
void split_tf32_cuda(const Tf32Split& problem, void* stream);

// sum of a b over two matrices.
struct DotProduct {
  static constexpr int64_t kPartials = 1024;

  const float* a = nullptr;  // (i, j) at i * a_stride + j
  int64_t a_stride = 0;
  const float* b = nullptr;  // (i, j) at i * b_stride + j
  int64_t b_stride = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  double* partials = nullptr;  // out [kPartials]: the sum is theirs, always in the same order
};
void dot_product_cuda(const DotProduct& problem, void* stream);

}  // namespace gptqb::kernels
