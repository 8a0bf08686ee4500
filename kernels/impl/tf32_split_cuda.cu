// A block takes a span of a row at a time, its threads neighbouring columns.
#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/tf32_split.h"

namespace gptqb::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kSpan = 4 * kThreads;  // columns a block takes at a time

__device__ inline float nearest_tf32(float value) {
  return __uint_as_float((__float_as_uint(value) + 0x1000U) & ~0x1FFFU);
}

// Calls action(row, column) for the thread's share of a matrix, always in the same order.
template <class Action>
__device__ void for_elements(int64_t rows, int64_t columns, const Action& action) {
  const int64_t spans = (columns + kSpan - 1) / kSpan;
  for (int64_t work = blockIdx.x; work < rows * spans; work += gridDim.x) {
    const int64_t row = work / spans;
    const int64_t begin = (work - row * spans) * kSpan;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int64_t column = begin + k * kThreads + threadIdx.x;
      if (column < columns) action(row, column);
    }
  }
}

__global__ void __launch_bounds__(kThreads) split_kernel(Tf32Split problem) {
  for_elements(problem.rows, problem.columns, [&](int64_t row, int64_t column) {
    const float value = problem.values[row * problem.stride + column];
    const float high = nearest_tf32(value);
    problem.high[row * problem.columns + column] = high;
    problem.low[row * problem.columns + column] = value - high;
  });
}

__global__ void __launch_bounds__(kThreads) dot_kernel(DotProduct problem) {
  double sum = 0;
  for_elements(problem.rows, problem.columns, [&](int64_t row, int64_t column) {
    sum += static_cast<double>(problem.a[row * problem.a_stride + column]) *
           static_cast<double>(problem.b[row * problem.b_stride + column]);
  });
  __shared__ double sums[kThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffU, sum, offset);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x > 0) return;
  double total = 0;
  for (const double part : sums) total += part;
  problem.partials[blockIdx.x] = total;
}

}  // namespace

void split_tf32_cuda(const Tf32Split& problem, void* stream) {
  const int64_t work = problem.rows * ((problem.columns + kSpan - 1) / kSpan);
  if (work == 0) return;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(work, 8192));
  split_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(problem);
  check_cuda(cudaGetLastError(), "launch of split_kernel");
}

void dot_product_cuda(const DotProduct& problem, void* stream) {
  dot_kernel<<<static_cast<unsigned>(DotProduct::kPartials), kThreads, 0,
               static_cast<cudaStream_t>(stream)>>>(problem);
  check_cuda(cudaGetLastError(), "launch of dot_kernel");
}

}  // namespace gptqb::kernels
