// At which clocks a device runs and what holds it back, for the record of a measurement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gptqb::kernels {

struct DeviceClocks {
  std::string unavailable;  // empty, or one line why nothing could be read; the rest is then empty
  int64_t clock_mhz = 0;    // of the multiprocessors; on the CPU the mean over its cores
  int64_t clock_max_mhz = 0;
  int64_t memory_mhz = 0;              // 0 on the CPU
  std::vector<std::string> throttled;  // why clocks are lower than asked for: "power cap" ...
};

// What `mask` of nvmlDeviceGetCurrentClocksThrottleReasons says is holding clocks down (NVML API
// reference, nvmlClocksThrottleReasons). Idle clocks and clocks that the user set are no
// throttling.
std::vector<std::string> throttle_reasons(uint64_t mask);

// Of the GPU with this CUDA index, by NVML (libnvidia-ml.so.1, which comes with the driver and is
// looked for at run time). Never throws.
DeviceClocks cuda_clocks(int64_t device);
// Of this machine's processor, by /proc/cpuinfo. Never throws.
DeviceClocks cpu_clocks();

}  // namespace gptqb::kernels
