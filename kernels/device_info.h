// What CUDA devices there are and whether this build can run on them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gptqb::kernels {

struct DeviceInfo {
  int64_t index = 0;
  std::string name;
  int64_t capability_major = 0;
  int64_t capability_minor = 0;
  int64_t multiprocessors = 0;
  int64_t shared_bytes = 0;  // of shared memory that a block may take
  int64_t memory_total = 0;  // bytes
  int64_t memory_free = 0;   // bytes
  std::string unusable;      // empty, or one line why our kernels cannot run there
};

struct CudaInfo {
  // Empty, or one line why there is no CUDA at all; the rest is then empty.
  std::string unavailable;
  int64_t driver_version = 0;   // 12080 is 12.8; 0 without a driver
  int64_t runtime_version = 0;  // of the linked cudart
  std::vector<DeviceInfo> devices;
};

// Never throws: what is wrong is in the `unavailable` and `unusable` lines. Not cheap (creates
// contexts).
CudaInfo cuda_info();

// Empty, or why this build has no CUDA kernels, whatever the machine has. Cheap.
std::string built_without_cuda();

// "00000000:3B:00.0", by which other tools know the device with this CUDA index; "" if there is
// none.
std::string pci_bus_id(int64_t device);

// "12.8" of 12080.
std::string cuda_version_text(int64_t version);

}  // namespace gptqb::kernels
