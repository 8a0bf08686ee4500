// One thread takes eight values at a time, 16 bytes of each tensor. What a block reads twice, it
// finds in the caches.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda_check.h"
#include "kernels/forward.h"

namespace gptqb::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kVector = static_cast<int>(kHalfVector);

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

__device__ inline int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

template <class T>
__global__ void __launch_bounds__(kThreads) squares_kernel(Squares problem, int64_t count) {
  const int64_t vector = thread_index();
  if (vector >= count) return;
  const Eight<T> values = load<T>(problem.x, vector);
  float squares[kVector];
#pragma unroll
  for (int k = 0; k < kVector; ++k)
    squares[k] = __fmul_rn(widen(values.value[k]), widen(values.value[k]));
  auto* const out = reinterpret_cast<float4*>(problem.out) + 2 * vector;
  out[0] = make_float4(squares[0], squares[1], squares[2], squares[3]);
  out[1] = make_float4(squares[4], squares[5], squares[6], squares[7]);
}

template <class T>
__global__ void __launch_bounds__(kThreads) scale_rows_kernel(ScaleRows problem, int64_t count) {
  const int64_t vector = thread_index();
  if (vector >= count) return;
  const int64_t per_row = problem.columns / kVector;
  const int64_t row = vector / per_row;
  const float inverse = problem.inverse[row];
  Eight<T> values = load<T>(problem.x, vector);
  const Eight<T> scale = load<T>(problem.scale, vector - row * per_row);
#pragma unroll
  for (int k = 0; k < kVector; ++k)
    values.value[k] =
        rounded<T>(__fmul_rn(multiply<T>(widen(values.value[k]), inverse), widen(scale.value[k])));
  store(problem.out, vector, values);
}

template <class T>
__global__ void __launch_bounds__(kThreads) rotate_kernel(Rotate problem, int64_t count) {
  const int64_t index = thread_index();
  if (index >= count) return;
  const int64_t per_half = problem.half / kVector;
  const int64_t head = index / per_half;  // of all tokens
  const int64_t within = index - head * per_half;
  const int64_t position = head / problem.heads % problem.seqlen;
  const int64_t first = head * 2 * per_half + within;
  const Eight<T> low = load<T>(problem.x, first);
  const Eight<T> high = load<T>(problem.x, first + per_half);
  const Eight<T> cosine = load<T>(problem.cosines, position * per_half + within);
  const Eight<T> sine = load<T>(problem.sines, position * per_half + within);
  Eight<T> low_out, high_out;
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const float a = widen(low.value[k]), b = widen(high.value[k]);
    const float c = widen(cosine.value[k]), s = widen(sine.value[k]);
    low_out.value[k] = rounded<T>(add<T>(multiply<T>(a, c), -multiply<T>(b, s)));
    high_out.value[k] = rounded<T>(add<T>(multiply<T>(b, c), multiply<T>(a, s)));
  }
  store(problem.out, first, low_out);
  store(problem.out, first + per_half, high_out);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    silu_multiply_kernel(SiluMultiply problem, int64_t count) {
  const int64_t vector = thread_index();
  if (vector >= count) return;
  Eight<T> gate = load<T>(problem.gate, vector);
  const Eight<T> up = load<T>(problem.up, vector);
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const float x = widen(gate.value[k]);
    const float activated = widen(rounded<T>(__fdiv_rn(x, 1.0F + expf(-x))));
    gate.value[k] = rounded<T>(__fmul_rn(activated, widen(up.value[k])));
  }
  store(problem.gate, vector, gate);
}

// One thread for each of `count` vectors.
template <class Kernel, class Problem>
void launch(Kernel kernel, const Problem& problem, int64_t count, void* stream, const char* name) {
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(problem, count);
  check_cuda(cudaGetLastError(), name);
}

}  // namespace

void squares_cuda(const Squares& problem, void* stream) {
  const bool half = problem.type == HalfType::kFloat16;
  launch(half ? squares_kernel<__half> : squares_kernel<__nv_bfloat16>, problem,
         problem.count / kVector, stream, "launch of squares_kernel");
}

void scale_rows_cuda(const ScaleRows& problem, void* stream) {
  const bool half = problem.type == HalfType::kFloat16;
  launch(half ? scale_rows_kernel<__half> : scale_rows_kernel<__nv_bfloat16>, problem,
         problem.rows * problem.columns / kVector, stream, "launch of scale_rows_kernel");
}

void rotate_cuda(const Rotate& problem, void* stream) {
  const bool half = problem.type == HalfType::kFloat16;
  launch(half ? rotate_kernel<__half> : rotate_kernel<__nv_bfloat16>, problem,
         problem.tokens * problem.heads * problem.half / kVector, stream,
         "launch of rotate_kernel");
}

void silu_multiply_cuda(const SiluMultiply& problem, void* stream) {
  const bool half = problem.type == HalfType::kFloat16;
  launch(half ? silu_multiply_kernel<__half> : silu_multiply_kernel<__nv_bfloat16>, problem,
         problem.count / kVector, stream, "launch of silu_multiply_kernel");
}

}  // namespace gptqb::kernels
