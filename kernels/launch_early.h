// Launches whose beginning may overlap with the end of the kernel before. Only included by .cu
// files.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cuda_check.h"

namespace gptqb::kernels {

// Of a kernel that is launched early: the next one may begin, as far as it does not wait; waits
// until all before it are done and seen.
__device__ inline void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Queues `kernel` on `stream` with as much dynamic shared memory as it wants. `early`: it may start
// as soon as the kernel before it in the stream lets it, and waits for that one itself
// (griddepcontrol.wait). `cluster`: neighbouring blocks that reach each other's shared memory.
// Throws Error if the launch fails.
template <class... Parameters>
void launch_early(void (*kernel)(Parameters...), dim3 blocks, int threads, int64_t shared_bytes,
                  bool early, int cluster, cudaStream_t stream, const Parameters&... arguments) {
  GPTQB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes)));
  std::array<cudaLaunchAttribute, 2> attributes{};
  unsigned count = 0;
  if (cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  }
  if (early) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = count;
  GPTQB_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

// The same without clusters.
template <class... Parameters>
void launch_early(void (*kernel)(Parameters...), dim3 blocks, int threads, int64_t shared_bytes,
                  bool early, cudaStream_t stream, const Parameters&... arguments) {
  launch_early(kernel, blocks, threads, shared_bytes, early, /*cluster=*/1, stream, arguments...);
}

template <class... Parameters>
void launch_early(void (*kernel)(Parameters...), int64_t blocks, int threads, int64_t shared_bytes,
                  bool early, cudaStream_t stream, const Parameters&... arguments) {
  launch_early(kernel, dim3(static_cast<unsigned>(blocks)), threads, shared_bytes, early, stream,
               arguments...);
}

}  // namespace gptqb::kernels
