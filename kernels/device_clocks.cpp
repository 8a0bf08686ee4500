#include "kernels/device_clocks.h"

#include <dlfcn.h>

#include <fstream>

#include "kernels/device_info.h"

namespace gptqb::kernels {
namespace {

// The few entry points of NVML that are needed, with the types of its ABI (NVML API reference).
class Nvml {
 public:
  static const Nvml& instance() {
    static const Nvml nvml;
    return nvml;
  }

  // Empty if it can be asked.
  const std::string& unavailable() const { return unavailable_; }

  DeviceClocks read(const std::string& pci_bus_id) const {
    DeviceClocks clocks;
    void* device = nullptr;
    if (const int status = handle_(pci_bus_id.c_str(), &device); status != 0) {
      clocks.unavailable =
          "NVML does not know the device " + pci_bus_id + " (error " + std::to_string(status) + ")";
      return clocks;
    }
    clocks.clock_mhz = number(clock_, device, kMultiprocessors);
    clocks.clock_max_mhz = number(clock_max_, device, kMultiprocessors);
    clocks.memory_mhz = number(clock_, device, kMemory);
    unsigned long long mask = 0;
    if (reasons_ != nullptr && reasons_(device, &mask) == 0)
      clocks.throttled = throttle_reasons(mask);
    return clocks;
  }

 private:
  using Init = int (*)();
  using Handle = int (*)(const char*, void**);
  using Number = int (*)(void*, int, unsigned*);
  using Mask = int (*)(void*, unsigned long long*);
  static constexpr int kMultiprocessors = 1, kMemory = 2;

  Nvml() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      unavailable_ = "libnvidia-ml.so.1, which comes with the driver, is not here";
      return;
    }
    const auto init = reinterpret_cast<Init>(dlsym(library, "nvmlInit_v2"));
    handle_ = reinterpret_cast<Handle>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
    clock_ = reinterpret_cast<Number>(dlsym(library, "nvmlDeviceGetClockInfo"));
    clock_max_ = reinterpret_cast<Number>(dlsym(library, "nvmlDeviceGetMaxClockInfo"));
    // Renamed in later versions, which keep the old name.
    reasons_ = reinterpret_cast<Mask>(dlsym(library, "nvmlDeviceGetCurrentClocksThrottleReasons"));
    if (init == nullptr || handle_ == nullptr)
      unavailable_ = "libnvidia-ml.so.1 lacks entry points";
    else if (const int status = init(); status != 0)
      unavailable_ = "NVML does not start (error " + std::to_string(status) + ")";
  }

  static int64_t number(Number ask, void* device, int what) {
    unsigned value = 0;
    return ask != nullptr && ask(device, what, &value) == 0 ? static_cast<int64_t>(value) : 0;
  }

  std::string unavailable_;
  Handle handle_ = nullptr;
  Number clock_ = nullptr, clock_max_ = nullptr;
  Mask reasons_ = nullptr;
};

}  // namespace

std::vector<std::string> throttle_reasons(uint64_t mask) {
  static constexpr struct {
    uint64_t bit;
    const char* name;
  } kReasons[] = {{0x04, "power cap"},
                  {0x08, "hardware slowdown"},
                  {0x10, "sync boost"},
                  {0x20, "software thermal slowdown"},
                  {0x40, "hardware thermal slowdown"},
                  {0x80, "power brake"}};
  std::vector<std::string> names;
  for (const auto& reason : kReasons)
    if ((mask & reason.bit) != 0) names.emplace_back(reason.name);
  return names;
}

DeviceClocks cuda_clocks(int64_t device) {
  DeviceClocks clocks;
  clocks.unavailable = Nvml::instance().unavailable();
  if (!clocks.unavailable.empty()) return clocks;
  const std::string id = pci_bus_id(device);
  if (!id.empty()) return Nvml::instance().read(id);
  clocks.unavailable = "there is no CUDA device " + std::to_string(device);
  return clocks;
}

DeviceClocks cpu_clocks() {
  DeviceClocks clocks;
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  double sum = 0;
  int64_t cores = 0;
  while (std::getline(file, line)) {
    if (line.compare(0, 7, "cpu MHz") != 0) continue;
    sum += std::strtod(line.c_str() + line.find(':') + 1, nullptr);
    ++cores;
  }
  if (cores > 0)
    clocks.clock_mhz = static_cast<int64_t>(sum / static_cast<double>(cores));
  else
    clocks.unavailable = "/proc/cpuinfo shows no clocks";
  return clocks;
}

}  // namespace gptqb::kernels
