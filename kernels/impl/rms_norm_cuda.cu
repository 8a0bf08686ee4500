// A row is read twice: four values at a time, in the order of ATen's sum, then, from the caches,
// eight at a time.
#include "kernels/cuda_check.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/forward.h"

namespace gptqb::kernels {
namespace {

constexpr int kWarps = 16;
// ATen shares a row out to one warp, or from 256 values a thread on to sixteen.
constexpr int64_t kOneWarpColumns = 32 * 255;
constexpr int kSums = 4;  // of a thread, of every fourth value

template <class T>
struct alignas(kSums * sizeof(T)) Few {
  T value[kSums];
};

// Sum of a row's squares over the threads of kParts warps, thread `first` of 32 kParts; all of them
// have it.
template <class T, int kParts>
__device__ float sum_of_squares(const T* row, int columns, int first, float* shared) {
  float sums[kSums] = {};
  const auto* const values = reinterpret_cast<const Few<T>*>(row);
#pragma unroll 8
  for (int i = first; i < columns / kSums; i += 32 * kParts) {
    const Few<T> few = values[i];
#pragma unroll
    for (int k = 0; k < kSums; ++k) {
      const float x = widen(few.value[k]);
      sums[k] = __fadd_rn(sums[k], __fmul_rn(x, x));
    }
  }
  float sum = sums[0];
#pragma unroll
  for (int k = 1; k < kSums; ++k) sum = __fadd_rn(sum, sums[k]);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    sum = __fadd_rn(sum, __shfl_down_sync(0xffffffffU, sum, offset));
  if constexpr (kParts > 1) {
    const int part = first / 32;
    if (first % 32 == 0) shared[part] = sum;
    for (int offset = kParts / 2; offset > 0; offset /= 2) {
      __syncthreads();
      if (first < offset) shared[first] = __fadd_rn(shared[first], shared[first + offset]);
    }
    __syncthreads();
    return shared[0];
  }
  return __shfl_sync(0xffffffffU, sum, 0);
}

template <class T, int kParts>
__global__ void __launch_bounds__(32 * kWarps)
    rms_norm_kernel(RmsNorm problem, float one_of_columns) {
  __shared__ float shared[kWarps];
  const int first = static_cast<int>(threadIdx.x) % (32 * kParts);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * (kWarps / kParts) +
                      static_cast<int>(threadIdx.x) / (32 * kParts);
  if (row >= problem.rows) return;  // with kParts > 1 for no thread of a block, or for all
  const int columns = static_cast<int>(problem.columns);
  const int64_t start = row * problem.columns;
  const T* const x = static_cast<const T*>(problem.x) + start;
  const float sum = sum_of_squares<T, kParts>(x, columns, first, shared);
  const float inverse = rsqrtf(__fadd_rn(__fmul_rn(sum, one_of_columns), problem.epsilon));
  T* const out = static_cast<T*>(problem.out) + start;
  for (int i = first; i < columns / kVector; i += 32 * kParts) {
    Eight<T> values = load<T>(x, i);
    const Eight<T> scale = load<T>(problem.scale, i);
#pragma unroll
    for (int k = 0; k < kVector; ++k)
      values.value[k] = rounded<T>(
          __fmul_rn(multiply<T>(widen(values.value[k]), inverse), widen(scale.value[k])));
    store(out, i, values);
  }
}

template <class T>
void launch(const RmsNorm& problem, cudaStream_t stream) {
  // As ATen rounds it.
  const float one_of_columns =
      static_cast<float>(problem.rows) / static_cast<float>(problem.rows * problem.columns);
  const bool one_warp = problem.columns <= kOneWarpColumns;
  const int64_t rows_a_block = one_warp ? kWarps : 1;
  const auto blocks = static_cast<unsigned>((problem.rows + rows_a_block - 1) / rows_a_block);
  const auto kernel = one_warp ? rms_norm_kernel<T, 1> : rms_norm_kernel<T, kWarps>;
  kernel<<<blocks, 32 * kWarps, 0, stream>>>(problem, one_of_columns);
  GPTQB_CUDA_LAUNCHED("rms_norm_kernel");
}

}  // namespace

void rms_norm_cuda(const RmsNorm& problem, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  if (problem.type == HalfType::kFloat16)
    launch<__half>(problem, on);
  else
    launch<__nv_bfloat16>(problem, on);
}

}  // namespace gptqb::kernels
