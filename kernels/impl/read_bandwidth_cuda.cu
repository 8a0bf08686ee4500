// A grid that fills the device once and walks through memory together: at any time each thread has
// eight loads of 16 bytes on their way.
#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/read_bandwidth.h"

namespace gptqb::kernels {
namespace {

constexpr int kThreads = 512;
constexpr int kLoads = 8;
constexpr int kBlocksPerMultiprocessor = 2;

__device__ __forceinline__ uint4 load(const uint4* address) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(address));
  return value;
}

__device__ __forceinline__ uint32_t fold(uint4 value) {
  return value.x ^ value.y ^ value.z ^ value.w;
}

__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    fold_words_kernel(const uint4* data, int64_t vectors, uint32_t* partials) {
  constexpr int64_t kTile = kThreads * kLoads;
  const int64_t step = gridDim.x * kTile;
  uint32_t folded = 0;
  int64_t base = blockIdx.x * kTile;
  for (; base + kTile <= vectors; base += step) {
    uint4 values[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) values[i] = load(data + base + i * kThreads + threadIdx.x);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) folded ^= fold(values[i]);
  }
  for (int64_t i = base + threadIdx.x; i < std::min(base + kTile, vectors); i += kThreads)
    folded ^= fold(load(data + i));

  __shared__ uint32_t of_warps[kThreads / 32];
  folded = __reduce_xor_sync(0xffffffffU, folded);
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = folded;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int w = 1; w < kThreads / 32; ++w) folded ^= of_warps[w];
  partials[blockIdx.x] = folded;
}

}  // namespace

int64_t fold_words_partials() {
  return int64_t{cuda_attribute(cudaDevAttrMultiProcessorCount)} * kBlocksPerMultiprocessor;
}

void fold_words_cuda(const void* data, int64_t bytes, uint32_t* partials, void* stream) {
  const auto blocks = static_cast<unsigned>(fold_words_partials());
  fold_words_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const uint4*>(data), bytes / static_cast<int64_t>(sizeof(uint4)), partials);
  GPTQB_CUDA_LAUNCHED("fold_words_kernel");
}

}  // namespace gptqb::kernels
