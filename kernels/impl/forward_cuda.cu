// One thread takes eight values at a time, 16 bytes of each tensor. What a block reads twice, it
// finds in the caches.
#include "kernels/cuda_check.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/forward.h"
#include "kernels/launch_early.h"

namespace gptqb::kernels {
namespace {

constexpr int kThreads = 256;
static_assert(kVector == kHalfVector);

__device__ inline int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
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
  const int64_t columns = problem.columns / kVector;
  const int64_t row = vector / columns;
  const int64_t from = row * (problem.stride / kVector) + vector - row * columns;
  let_next_begin();
  wait_for_earlier_kernels();
  if (vector >= count) return;
  Eight<T> gate = load<T>(problem.gate, from);
  const Eight<T> up = load<T>(problem.up, from);
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const float x = widen(gate.value[k]);
    const float activated = widen(rounded<T>(__fdiv_rn(x, 1.0F + expf(-x))));
    gate.value[k] = rounded<T>(__fmul_rn(activated, widen(up.value[k])));
  }
  store(problem.out, vector, gate);
}

template <class T>
__global__ void __launch_bounds__(kThreads) bloom_gelu_kernel(BloomGelu problem, int64_t count) {
  const int64_t vector = thread_index();
  if (vector >= count) return;
  Eight<T> values = load<T>(problem.x, vector);
#pragma unroll
  for (int k = 0; k < kVector; ++k) {
    const float x = widen(values.value[k]);
    const float inner = add<T>(multiply<T>(multiply<T>(x, 0.044715F), x), 1.F);
    const float argument = multiply<T>(multiply<T>(x, 0.79788456F), inner);
    const float gate = add<T>(widen(rounded<T>(tanhf(argument))), 1.F);
    values.value[k] = rounded<T>(__fmul_rn(multiply<T>(x, 0.5F), gate));
  }
  store(problem.x, vector, values);
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

void rotate_cuda(const Rotate& problem, void* stream) {
  const bool half = problem.type == HalfType::kFloat16;
  launch(half ? rotate_kernel<__half> : rotate_kernel<__nv_bfloat16>, problem,
         problem.tokens * problem.heads * problem.half / kVector, stream,
         "launch of rotate_kernel");
}

void silu_multiply_cuda(const SiluMultiply& problem, void* stream) {
  const int64_t count = problem.rows * problem.columns / kVector;
  if (count == 0) return;
  const bool half = problem.type == HalfType::kFloat16;
  launch_early(half ? silu_multiply_kernel<__half> : silu_multiply_kernel<__nv_bfloat16>,
               (count + kThreads - 1) / kThreads, kThreads, 0, /*early=*/true,
               static_cast<cudaStream_t>(stream), problem, count);
}

void bloom_gelu_cuda(const BloomGelu& problem, void* stream) {
  const bool half = problem.type == HalfType::kFloat16;
  launch(half ? bloom_gelu_kernel<__half> : bloom_gelu_kernel<__nv_bfloat16>, problem,
         problem.count / kVector, stream, "launch of bloom_gelu_kernel");
}

}  // namespace gptqb::kernels
