#include "runner/environment.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <link.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/proc_bytes.h"
#include "kernels/device_info.h"

namespace gptqb {
namespace {

// The text after `key` and a colon or '=' in a file of such lines, without quotes; empty if there
// is none.
std::string value_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key, 0) != 0) continue;
    const size_t mark = line.find_first_of(":=", key.size());
    if (mark == std::string::npos) continue;
    const size_t first = line.find_first_not_of(" \t\"", mark + 1);
    if (first == std::string::npos) return "";
    return line.substr(first, line.find_last_not_of(" \t\"") - first + 1);
  }
  return "";
}

int64_t leading_integer(const std::string& text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string operating_system() {
  utsname names{};
  if (::uname(&names) != 0) return "";
  const std::string kernel = std::string(names.sysname) + " " + names.release + " " + names.machine;
  const std::string distribution = value_in("/etc/os-release", "PRETTY_NAME");
  return distribution.empty() ? kernel : distribution + ", " + kernel;
}

int64_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return ::sysconf(_SC_NPROCESSORS_ONLN);
  return CPU_COUNT(&set);
}

int64_t usable_memory() {
  const int64_t machine = int64_t{::sysconf(_SC_PHYS_PAGES)} * int64_t{::sysconf(_SC_PAGE_SIZE)};
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line)) continue;
    const int64_t limit = leading_integer(line);  // 0 for "max"
    if (limit > 0 && limit < machine) return limit;
  }
  return machine;
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  // Only numeric fields, so that no locale shows in it.
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

// Libraries without a version in their headers are known by the full name of the file the loader
// took.
int add_library(dl_phdr_info* info, size_t, void* result) {
  auto& libraries = *static_cast<std::map<std::string, std::string>*>(result);
  const std::filesystem::path path = info->dlpi_name ? info->dlpi_name : "";
  for (const char* name : {"yaml-cpp", "sentencepiece", "pcre2-8", "zstd", "lzma", "z"}) {
    if (path.filename().string().rfind(std::string("lib") + name + ".so", 0) != 0) continue;
    std::error_code failed;
    const auto real = std::filesystem::canonical(path, failed);
    libraries[name] = (failed ? path : real).filename().string();
  }
  return 0;
}

std::map<std::string, std::string> library_versions() {
  std::map<std::string, std::string> libraries;
  ::dl_iterate_phdr(add_library, &libraries);
  libraries["torch"] = build_info().torch;
  libraries["nlohmann_json"] = std::to_string(NLOHMANN_JSON_VERSION_MAJOR) + "." +
                               std::to_string(NLOHMANN_JSON_VERSION_MINOR) + "." +
                               std::to_string(NLOHMANN_JSON_VERSION_PATCH);
  return libraries;
}

// The kernel module's version where the system shows it ("570.86.15"), else the CUDA version the
// driver supports.
std::string driver_version(const kernels::CudaInfo& cuda) {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  if (std::getline(file, version) && !version.empty()) return version;
  return "for CUDA " + kernels::cuda_version_text(cuda.driver_version);
}

void add_gpu(const std::string& device, Environment& environment) {
  const kernels::CudaInfo cuda = kernels::cuda_info();
  const size_t colon = device.find(':');
  const int64_t index = colon == std::string::npos ? 0 : leading_integer(device.substr(colon + 1));
  for (const kernels::DeviceInfo& info : cuda.devices) {
    if (info.index != index) continue;
    environment.gpu = info.name;
    environment.gpu_driver = driver_version(cuda);
    environment.gpu_runtime = kernels::cuda_version_text(cuda.runtime_version);
    environment.gpu_capability =
        std::to_string(info.capability_major) + "." + std::to_string(info.capability_minor);
    environment.gpu_memory_bytes = info.memory_total;
  }
}

}  // namespace

Environment capture_environment(const std::string& device, const std::vector<std::string>& argv) {
  Environment result;
  result.build = build_info();
  result.build_id = build_id();
  result.time = utc_now();
  result.os = operating_system();
  result.cpu = value_in("/proc/cpuinfo", "model name");
  result.cores = usable_cores();
  result.threads = at::get_num_threads();
  result.memory_bytes = usable_memory();
  result.device = device;
  result.libraries = library_versions();
  result.argv = argv;
  if (device.rfind("cuda", 0) == 0) add_gpu(device, result);
  return result;
}

bool same_device(const Environment& a, const Environment& b) {
  return a.device == b.device && a.gpu == b.gpu && a.cpu == b.cpu && a.threads == b.threads;
}

const std::string& device_name(const Environment& environment) {
  return environment.gpu.empty() ? environment.cpu : environment.gpu;
}

std::string device_line(const Environment& environment) {
  if (environment.gpu.empty())
    return environment.cpu + " (" + std::to_string(environment.threads) + " threads)";
  return environment.gpu + " (driver " + environment.gpu_driver + ", CUDA " +
         environment.gpu_runtime + ", capability " + environment.gpu_capability + ")";
}

int64_t resident_bytes() { return proc_bytes("/proc/self/status", "VmRSS"); }

int64_t peak_resident_bytes() { return proc_bytes("/proc/self/status", "VmHWM"); }

void reset_peak_resident_bytes() { std::ofstream("/proc/self/clear_refs") << "5\n"; }

}  // namespace gptqb
