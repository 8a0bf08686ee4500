#include <cuda_runtime.h>

#include "kernels/device_info.h"

namespace gptqb::kernels {
namespace {

// Launched by nobody: asking for its attributes tells whether the binary holds code for a device.
__global__ void probe_kernel() {}

// The line for `status`, with the error state cleared; empty if it is a success.
std::string reason(cudaError_t status) {
  if (status == cudaSuccess) return "";
  cudaGetLastError();
  return std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
}

// Sets the device and puts the old one back.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    cudaGetDevice(&before_);
    cudaSetDevice(device);
  }
  ~DeviceScope() { cudaSetDevice(before_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

DeviceInfo describe(int index) {
  DeviceInfo info;
  info.index = index;
  cudaDeviceProp properties{};
  info.unusable = reason(cudaGetDeviceProperties(&properties, index));
  if (!info.unusable.empty()) return info;
  info.name = properties.name;
  info.capability_major = properties.major;
  info.capability_minor = properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  info.memory_total = static_cast<int64_t>(properties.totalGlobalMem);
  const DeviceScope scope(index);
  size_t free = 0;
  size_t total = 0;
  info.unusable = reason(cudaMemGetInfo(&free, &total));
  info.memory_free = static_cast<int64_t>(free);
  if (!info.unusable.empty()) return info;
  cudaFuncAttributes attributes{};
  if (const auto missing = reason(cudaFuncGetAttributes(&attributes, probe_kernel));
      !missing.empty())
    info.unusable = "this build has no kernels for compute capability " +
                    std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                    " (" + missing + "); add it to CMAKE_CUDA_ARCHITECTURES and build again";
  return info;
}

}  // namespace

std::string built_without_cuda() { return ""; }

CudaInfo cuda_info() {
  CudaInfo info;
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess) info.runtime_version = version;
  if (cudaDriverGetVersion(&version) == cudaSuccess) info.driver_version = version;
  int count = 0;
  if (const auto why = reason(cudaGetDeviceCount(&count)); !why.empty()) {
    info.unavailable = info.driver_version == 0 ? "no CUDA driver is installed"
                                                : "no CUDA device can be used (" + why + ")";
    return info;
  }
  if (count == 0) info.unavailable = "no CUDA device is present";
  for (int i = 0; i < count; ++i) info.devices.push_back(describe(i));
  return info;
}

std::string pci_bus_id(int64_t device) {
  char id[32] = {};
  if (!reason(cudaDeviceGetPCIBusId(id, sizeof id, static_cast<int>(device))).empty()) return "";
  return id;
}

}  // namespace gptqb::kernels
