#include "methods/matmul_device.h"

#include <algorithm>

#include "common/error.h"
#include "kernels/device_info.h"

namespace gptqb {

kernels::MatmulDevice matmul_device(at::Device device) {
  if (!device.is_cuda()) return {};
  const kernels::CudaInfo info = kernels::cuda_info();
  const auto index = static_cast<size_t>(std::max<int>(device.index(), 0));
  if (index >= info.devices.size())
    throw Error("device", "expected a CUDA device " + std::to_string(index) + ", got " +
                              std::to_string(info.devices.size()) + " devices");
  const kernels::DeviceInfo& gpu = info.devices[index];
  return {.cuda = true,
          .capability = 10 * gpu.capability_major + gpu.capability_minor,
          .multiprocessors = gpu.multiprocessors,
          .shared_bytes = gpu.shared_bytes};
}

}  // namespace gptqb
