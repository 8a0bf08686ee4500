// Every CUDA call is checked; a failure is an Error that carries the call's text. Only included by
// .cu files.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "common/error.h"

namespace gptqb::kernels {

// Throws Error naming `call` and CUDA's reason. The error state is cleared, so that the
// next call is not blamed for this one.
inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw Error("cuda", std::string("expected ") + call + " to succeed, got " +
                          cudaGetErrorName(status) + ": " + cudaGetErrorString(status));
}

// Of the current device.
inline int cuda_attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

}  // namespace gptqb::kernels

#define GPTQB_CUDA(call) ::gptqb::kernels::check_cuda((call), #call)
// After a kernel launch: configuration errors surface here.
#define GPTQB_CUDA_LAUNCHED(kernel) \
  ::gptqb::kernels::check_cuda(cudaGetLastError(), "launch of " kernel)
