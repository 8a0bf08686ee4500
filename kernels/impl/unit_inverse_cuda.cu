// One block a triangle, one thread a column of its inverse: x_i = e_i - sum over k < i of N_ki x_k.
// Threads never wait for each other once N is loaded.
#include "kernels/cuda_check.h"
#include "kernels/unit_inverse.h"

namespace gptqb::kernels {
namespace {

constexpr int kSize = static_cast<int>(UnitInverse::kMaxSize);
constexpr size_t kSharedBytes = 2 * kSize * kSize * sizeof(float);

__global__ void __launch_bounds__(kSize) invert_kernel(UnitInverse problem) {
  extern __shared__ float shared[];
  float* const factor = shared;                   // [k][i]
  float* const inverse = shared + kSize * kSize;  // [k][j]
  const int j = static_cast<int>(threadIdx.x);
  const int size = static_cast<int>(problem.size);
  const int64_t begin = problem.begins[blockIdx.x];
  const float* const corner = problem.factor + begin * problem.factor_stride + begin;
#pragma unroll 8
  for (int k = 0; k < size; ++k)
    factor[k * kSize + j] = k < j && j < size ? corner[k * problem.factor_stride + j] : 0.0F;
  __syncthreads();
  if (j >= size) return;
  // Columns begin with zeros: the threads of a warp start together at the first that has none.
  const int first = j / 32 * 32;
  for (int i = 0; i < first; ++i) inverse[i * kSize + j] = 0;
  for (int i = first; i < size; ++i) {
    float sums[4] = {};
    int k = first;
    for (; k + 16 <= i; k += 16) {
#pragma unroll
      for (int m = 0; m < 16; ++m)
        sums[m % 4] += factor[(k + m) * kSize + i] * inverse[(k + m) * kSize + j];
    }
    for (; k < i; ++k) sums[0] += factor[k * kSize + i] * inverse[k * kSize + j];
    const float sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    inverse[i * kSize + j] = i < j ? 0.0F : (i == j ? 1.0F : 0.0F) - sum;
  }
  float* const out = problem.inverse + static_cast<int64_t>(blockIdx.x) * size * size;
  for (int i = 0; i < size; ++i) out[i * size + j] = inverse[i * kSize + j];
}

}  // namespace

void invert_unit_cuda(const UnitInverse& problem, void* stream) {
  if (problem.count == 0) return;
  GPTQB_CUDA(cudaFuncSetAttribute(invert_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(kSharedBytes)));
  invert_kernel<<<static_cast<unsigned>(problem.count), kSize, kSharedBytes,
                  static_cast<cudaStream_t>(stream)>>>(problem);
  check_cuda(cudaGetLastError(), "launch of invert_kernel");
}

}  // namespace gptqb::kernels
