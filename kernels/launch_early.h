// Launches whose beginning may overlap with the end of the kernel before. Only included by .cu
// files.
#pragma once

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
// (griddepcontrol.wait). Throws Error if the launch fails.
template <class... Parameters>
void launch_early(void (*kernel)(Parameters...), dim3 blocks, int threads, int64_t shared_bytes,
                  bool early, cudaStream_t stream, const Parameters&... arguments) {
  GPTQB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes)));
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = early ? 1 : 0;
  GPTQB_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

template <class... Parameters>
void launch_early(void (*kernel)(Parameters...), int64_t blocks, int threads, int64_t shared_bytes,
                  bool early, cudaStream_t stream, const Parameters&... arguments) {
  launch_early(kernel, dim3(static_cast<unsigned>(blocks)), threads, shared_bytes, early, stream,
               arguments...);
}

}  // namespace gptqb::kernels
