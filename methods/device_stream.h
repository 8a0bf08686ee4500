// The queue of a device, as raw kernels take it.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
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

// A stream other than the default one, current on `device` (a GPU) while it lives: work on it can
// be captured in a graph.
class SideStream {
 public:
  explicit SideStream(at::Device device)
      : guard_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)),
        stream_(device) {}
  void* handle() const { return stream_.handle(); }
  void synchronize() const { guard_.current_stream().synchronize(); }

 private:
  c10::StreamGuard guard_;
  DeviceStream stream_;
};

}  // namespace gptqb
