// Eight values of 16 bits, read and written at once, and their arithmetic as separate tensor
// operations would round it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace gptqb::kernels {

constexpr int kVector = 8;

template <class T>
struct alignas(16) Eight {
  T value[kVector];
};

__device__ inline float widen(__half x) { return __half2float(x); }
__device__ inline float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T rounded(float x);
template <>
__device__ inline __half rounded(float x) {
  return __float2half_rn(x);
}
template <>
__device__ inline __nv_bfloat16 rounded(float x) {
  return __float2bfloat16_rn(x);
}

// The power of two by which bfloat16 values are divided so that float16 holds all of them that
// counts: the largest, whose bits without the sign are given, becomes 2^14 to 2^15, and what
// float16 cannot hold is below 2^-38 of it. Infinity and what is no number stay what they are.
__device__ inline int exponent_below(int largest) {
  return largest == 0 ? 0 : (largest >> 7) - 127 - 14;
}

// Products and sums as a tensor operation of its own leaves them: never fused, each rounded to T.
template <class T>
__device__ inline float multiply(float a, float b) {
  return widen(rounded<T>(__fmul_rn(a, b)));
}
template <class T>
__device__ inline float add(float a, float b) {
  return widen(rounded<T>(__fadd_rn(a, b)));
}

template <class T>
__device__ inline Eight<T> load(const void* from, int64_t vector) {
  return static_cast<const Eight<T>*>(from)[vector];
}
template <class T>
__device__ inline void store(void* to, int64_t vector, const Eight<T>& values) {
  static_cast<Eight<T>*>(to)[vector] = values;
}

}  // namespace gptqb::kernels
