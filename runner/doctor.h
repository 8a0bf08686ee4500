// `gptq-bench doctor`: what this machine can run, and what is missing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/device_info.h"
#include "runner/environment.h"

namespace gptqb {

struct DoctorOptions {
  std::filesystem::path data_root;           // $GPTQ_BENCH_DATA; may be empty
  std::filesystem::path models_root;         // $GPTQ_BENCH_MODELS; may be empty
  std::filesystem::path output = "results";  // where results go; must be writable
};

// One line of the report. `kAbsent`: not there, and needed for some experiments only.
enum class Health { kOk, kAbsent, kFault };
struct Check {
  Health health;
  std::string topic;  // "GPU 0"
  std::string text;   // what was found, or what is wrong and what to do
};

std::vector<Check> check_build(const BuildInfo& build);
// Devices against the architectures that the build holds code for (faults BI-01, BI-04).
std::vector<Check> check_gpus(const BuildInfo& build, const kernels::CudaInfo& cuda);
std::vector<Check> check_machine(const Environment& environment);
// Each file of the published datasets, under any of its spellings.
std::vector<Check> check_data(const std::filesystem::path& data_root);
// Each folder with a config.json.
std::vector<Check> check_models(const std::filesystem::path& models_root);
// Whether a file can be written there; the folder is made if need be and removed again if it was
// not there.
std::vector<Check> check_output(const std::filesystem::path& output);

// All checks, a line each: "ok  topic: text", "--  ..." for kAbsent, "!!  ..." for kFault.
std::string doctor_report(const DoctorOptions& options);
std::string doctor_text(const std::vector<Check>& checks);

}  // namespace gptqb
