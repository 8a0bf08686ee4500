// A thread block a row, which stays in registers between its two passes.
#include "kernels/cuda_check.h"
#include "kernels/decode.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/forward.h"
#include "kernels/launch_early.h"

namespace gptqb::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
static_assert(kVector == kHalfVector);

// The sum of `value` over the thread block, the same in all threads. `shared` [kWarps].
__device__ float block_sum(float value, float* shared) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffU, value, offset);
  __syncthreads();  // whoever still reads the sum before
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  float sum = shared[threadIdx.x % kWarps];
#pragma unroll
  for (int offset = kWarps / 2; offset > 0; offset /= 2)
    sum += __shfl_xor_sync(0xffffffffU, sum, offset);
  return sum;
}

// kHeld vectors a thread.
template <class T, int kHeld>
__global__ void __launch_bounds__(kThreads) add_norm_kernel(AddNorm problem) {
  __shared__ float shared[kWarps];
  const int vectors = static_cast<int>(problem.columns / kVector);
  const int64_t start = static_cast<int64_t>(blockIdx.x) * vectors;
  const auto columns = static_cast<float>(problem.columns);
  let_next_begin();
  // The norm's own tensors are nobody's work.
  Eight<T> scale[kHeld], shift[kHeld];
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const int i = h * kThreads + static_cast<int>(threadIdx.x);
    if (i < vectors && problem.scale != nullptr) scale[h] = load<T>(problem.scale, i);
    if (i < vectors && problem.shift != nullptr) shift[h] = load<T>(problem.shift, i);
  }
  wait_for_earlier_kernels();
  float x[kHeld][kVector];
  float sum = 0;
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const int i = h * kThreads + static_cast<int>(threadIdx.x);
    const bool here = i < vectors;
    Eight<T> values{};
    if (here) values = load<T>(problem.residual, start + i);
    if (here && problem.delta != nullptr) {
      const Eight<T> delta = load<T>(problem.delta, start + i);
#pragma unroll
      for (int k = 0; k < kVector; ++k)
        values.value[k] = rounded<T>(__fadd_rn(widen(values.value[k]), widen(delta.value[k])));
      store(problem.residual, start + i, values);
    }
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      x[h][k] = here ? widen(values.value[k]) : 0.0F;
      sum += problem.rms ? x[h][k] * x[h][k] : x[h][k];
    }
  }
  float mean = 0;
  float squares = block_sum(sum, shared);
  if (!problem.rms) {
    mean = squares / columns;
    sum = 0;
#pragma unroll
    for (int h = 0; h < kHeld; ++h) {
      const bool here = h * kThreads + static_cast<int>(threadIdx.x) < vectors;
#pragma unroll
      for (int k = 0; k < kVector; ++k) {
        const float from_mean = here ? x[h][k] - mean : 0.0F;
        sum += from_mean * from_mean;
      }
    }
    squares = block_sum(sum, shared);
  }
  const float inverse = rsqrtf(squares / columns + problem.epsilon);
#pragma unroll
  for (int h = 0; h < kHeld; ++h) {
    const int i = h * kThreads + static_cast<int>(threadIdx.x);
    if (i >= vectors) continue;
    Eight<T> out;
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      const float factor = problem.scale != nullptr ? widen(scale[h].value[k]) : 1.0F;
      const float addend = problem.shift != nullptr ? widen(shift[h].value[k]) : 0.0F;
      out.value[k] = problem.rms ? rounded<T>(__fmul_rn(multiply<T>(x[h][k], inverse), factor))
                                 : rounded<T>((x[h][k] - mean) * inverse * factor + addend);
    }
    store(problem.out, start + i, out);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) relu_kernel(Relu problem) {
  const int64_t vector = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  let_next_begin();
  wait_for_earlier_kernels();
  if (vector >= problem.count / kVector) return;
  Eight<T> values = load<T>(problem.x, vector);
#pragma unroll
  for (T& value : values.value)
    if (widen(value) < 0) value = rounded<T>(0);
  store(problem.x, vector, values);
}

template <class T>
void launch(const AddNorm& problem, cudaStream_t stream) {
  const int64_t held = (problem.columns / kVector + kThreads - 1) / kThreads;
  const auto kernel = held <= 1   ? add_norm_kernel<T, 1>
                      : held <= 2 ? add_norm_kernel<T, 2>
                      : held <= 3 ? add_norm_kernel<T, 3>
                                  : add_norm_kernel<T, 4>;
  launch_early(kernel, problem.rows, kThreads, 0, /*early=*/true, stream, problem);
}

}  // namespace

void add_norm_cuda(const AddNorm& problem, void* stream) {
  if (problem.rows == 0) return;
  const auto on = static_cast<cudaStream_t>(stream);
  if (problem.type == HalfType::kFloat16)
    launch<__half>(problem, on);
  else
    launch<__nv_bfloat16>(problem, on);
}

void relu_cuda(const Relu& problem, void* stream) {
  if (problem.count == 0) return;
  const int64_t blocks = (problem.count / kVector + kThreads - 1) / kThreads;
  const bool half = problem.type == HalfType::kFloat16;
  launch_early(half ? relu_kernel<__half> : relu_kernel<__nv_bfloat16>, blocks, kThreads, 0,
               /*early=*/true, static_cast<cudaStream_t>(stream), problem);
}

}  // namespace gptqb::kernels
