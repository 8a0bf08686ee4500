// x^T x on the tensor cores of Hopper GPUs (compute capability 9.0), one triangle only.
//
// Products of 16-bit numbers are exact in float32, and their sums there lose low bits by truncation
// rather than rounding, so that a sum that grows long drifts: every `tokens_at_once` tokens it is
// added to the result in memory, which rounds.
#pragma once

#include <cstdint>

#include "kernels/half_type.h"

namespace gptqb::kernels {

// upper_triangle(sum) += x^T x. Some values below the diagonal change too and mean nothing. The
// same inputs give the same bits: sums are added in the order of tokens. Raw pointers to memory of
// the current device.
struct SecondMoments {
  HalfType type = HalfType::kFloat16;
  int64_t tokens = 0;          // at least 1
  int64_t features = 0;        // a multiple of 8
  int64_t tokens_at_once = 0;  // a multiple of 64
  const void* x = nullptr;     // [tokens, features], 16-byte aligned
  float* sum = nullptr;        // in and out [features, features], 8-byte aligned
  // [second_moments_workspace(tokens, features, tokens_at_once)], 8-byte aligned; used up.
  float* workspace = nullptr;
  int32_t* pace = nullptr;  // one, used up
};

// Whether `second_moments_cuda` runs on the current device.
bool has_second_moments_cuda();

// Floats that `second_moments_cuda` wants to work in on the current device.
int64_t second_moments_workspace(int64_t tokens, int64_t features, int64_t tokens_at_once);

// Queued on `stream` (a cudaStream_t). Throws Error if the launch fails, or in a build without
// CUDA.
void second_moments_cuda(const SecondMoments& problem, void* stream);

}  // namespace gptqb::kernels
