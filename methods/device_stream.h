// The queue of a device, as raw kernels take it.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace gptqb {

// Makes `device` (a GPU) the current one while it lives; `handle` is its current stream, a
// cudaStream_t.
class DeviceStream {
 public:
  explicit DeviceStream(at::Device device) : current_(device) {
    const c10::impl::VirtualGuardImpl guard(device.type());
    handle_ = guard.getStreamNativeHandle(guard.getStream(device));
  }
  void* handle() const { return handle_; }

 private:
  c10::DeviceGuard current_;
  void* handle_ = nullptr;
};

}  // namespace gptqb
