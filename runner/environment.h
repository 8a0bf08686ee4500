// What a record says of the machine and the program, so that a number can be traced to what made
// it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runner/build_info.h"

namespace gptqb {

struct Environment {
  BuildInfo build;
  std::string build_id;
  std::string time;          // start of the capture, UTC, "2026-01-31T23:59:59Z"
  std::string os;            // "Debian GNU/Linux 12 (bookworm), Linux 6.1.0 x86_64"
  std::string cpu;           // model name
  int64_t cores = 0;         // this process may use (affinity), not those of the machine
  int64_t threads = 0;       // ATen's
  int64_t memory_bytes = 0;  // of the machine, or the container's limit where that is lower
  std::string device;        // "cpu", "cuda:0"
  std::string gpu;           // name; the four are empty on the CPU
  std::string gpu_driver;
  std::string gpu_runtime;
  std::string gpu_capability;                    // "9.0"
  int64_t gpu_memory_bytes = 0;                  // 0 on the CPU
  std::map<std::string, std::string> libraries;  // name -> version
  std::vector<std::string> argv;

  bool operator==(const Environment&) const = default;
};

// `device` as on the command line. Never fails: what cannot be read is empty or 0.
Environment capture_environment(const std::string& device, const std::vector<std::string>& argv);

// "NVIDIA H200 (driver 570.1, CUDA 12.8, capability 9.0)" or the CPU's name with its threads.
std::string device_line(const Environment& environment);
// The GPU's name, or the CPU's where there is none.
const std::string& device_name(const Environment& environment);

// Whether times of both can be held against each other: device, its name, CPU and threads agree.
bool same_device(const Environment& a, const Environment& b);

// Resident memory of this process in bytes, now and at its highest; 0 where /proc is absent.
int64_t resident_bytes();
int64_t peak_resident_bytes();
// Starts it anew, so that the next reading is of what follows. Where the system does not allow it,
// the peak stays that of the whole process.
void reset_peak_resident_bytes();

}  // namespace gptqb
