#include "kernels/cuda_check.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/published_sums.h"

namespace gptqb::kernels {
namespace {

constexpr int kThreads = 256;

__device__ inline int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

template <class T>
__global__ void __launch_bounds__(kThreads) scale_inputs_kernel(ScaledInputs problem) {
  const int64_t vector = thread_index();
  if (vector * kVector >= problem.count) return;
  const Eight<T> x = load<T>(problem.x, vector);
  float4 out[2];
  auto* values = reinterpret_cast<float*>(out);
#pragma unroll
  for (int k = 0; k < kVector; ++k) values[k] = __fmul_rn(widen(x.value[k]), problem.factor);
  auto* to = reinterpret_cast<float4*>(problem.out) + 2 * vector;
  to[0] = out[0];
  to[1] = out[1];
}

__global__ void __launch_bounds__(kThreads) add_to_running_sum_kernel(RunningSum problem) {
  const int64_t vector = thread_index();
  if (vector * 4 >= problem.count) return;
  auto* sums = reinterpret_cast<float4*>(problem.sum) + vector;
  const float4 product = reinterpret_cast<const float4*>(problem.product)[vector];
  float4 sum = *sums;
  sum.x = __fadd_rn(__fmul_rn(sum.x, problem.factor), product.x);
  sum.y = __fadd_rn(__fmul_rn(sum.y, problem.factor), product.y);
  sum.z = __fadd_rn(__fmul_rn(sum.z, problem.factor), product.z);
  sum.w = __fadd_rn(__fmul_rn(sum.w, problem.factor), product.w);
  *sums = sum;
}

unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

}  // namespace

void scale_inputs_cuda(const ScaledInputs& problem, void* stream) {
  if (problem.count == 0) return;
  const auto kernel = problem.type == HalfType::kFloat16 ? scale_inputs_kernel<__half>
                                                         : scale_inputs_kernel<__nv_bfloat16>;
  kernel<<<blocks_for(problem.count / kVector), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      problem);
  GPTQB_CUDA_LAUNCHED("scale_inputs_kernel");
}

void add_to_running_sum_cuda(const RunningSum& problem, void* stream) {
  if (problem.count == 0) return;
  add_to_running_sum_kernel<<<blocks_for(problem.count / 4), kThreads, 0,
                              static_cast<cudaStream_t>(stream)>>>(problem);
  GPTQB_CUDA_LAUNCHED("add_to_running_sum_kernel");
}

}  // namespace gptqb::kernels
