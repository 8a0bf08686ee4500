#include "runner/doctor.h"

#include <algorithm>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/text.h"
#include "datasets/text_source.h"
#include "runner/report/number_format.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

// The files that the protocol's names stand for, below the data folder.
struct KnownFile {
  const char* dataset;
  const char* path;
};
constexpr KnownFile kKnownFiles[] = {
    {"wikitext2 (calibration)", "wikitext-2-raw/wiki.train.raw"},
    {"wikitext2@train-head", "wikitext-2-raw/wiki.train.head.raw"},
    {"wikitext2@valid", "wikitext-2-raw/wiki.valid.raw"},
    {"wikitext2", "wikitext-2-raw/wiki.test.raw"},
    {"ptb (calibration)", "ptb/ptb.train.txt"},
    {"ptb", "ptb/ptb.valid.txt"},
    {"ptb-new", "ptb/ptb.test.txt"},
    {"c4 (calibration)", "c4/en/c4-train.00000-of-01024.json"},
    {"c4, c4-new", "c4/en/c4-validation.00000-of-00008.json"},
};

std::string size_text(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

// Compute capability as in the architecture list: 9 and 0 give 90.
int64_t architecture_of(const kernels::DeviceInfo& device) {
  return 10 * device.capability_major + device.capability_minor;
}

bool is_writable(const fs::path& folder, std::string& reason) {
  const fs::path probe = folder / ".gptq_bench_doctor";
  try {
    write_file_atomically(probe, "x");
  } catch (const Error& error) {
    reason = error.what();
    return false;
  }
  std::error_code ignored;
  fs::remove(probe, ignored);
  return true;
}

void append(std::vector<Check> more, std::vector<Check>& checks) {
  checks.insert(checks.end(), more.begin(), more.end());
}

}  // namespace

std::vector<Check> check_build(const BuildInfo& build) {
  std::vector<Check> checks = {{Health::kOk, "build", version_line(build)}};
  if (build.flags.find("-O") == std::string::npos)
    checks.push_back({Health::kFault, "build",
                      "compiled without optimization (" + build.flags +
                          "): expect it to be many times slower. Use cmake --preset release"});
  return checks;
}

std::vector<Check> check_gpus(const BuildInfo& build, const kernels::CudaInfo& cuda) {
  if (!cuda.unavailable.empty())
    return {{build.cuda.empty() ? Health::kAbsent : Health::kFault, "GPU",
             "none: " + cuda.unavailable}};
  std::vector<Check> checks;
  checks.push_back({Health::kOk, "CUDA",
                    "driver supports " + kernels::cuda_version_text(cuda.driver_version) +
                        ", runtime " + kernels::cuda_version_text(cuda.runtime_version) +
                        ", code for " + build.cuda_architectures});
  for (const kernels::DeviceInfo& device : cuda.devices) {
    const std::string topic = "GPU " + std::to_string(device.index);
    std::string text = device.name;
    text += ", architecture " + std::to_string(architecture_of(device)) + ", " +
            size_text(device.memory_free) + " of " + size_text(device.memory_total) + " free";
    if (!device.unusable.empty()) text += ": " + device.unusable;
    checks.push_back({device.unusable.empty() ? Health::kOk : Health::kFault, topic, text});
  }
  return checks;
}

std::vector<Check> check_machine(const Environment& environment) {
  std::vector<Check> checks;
  checks.push_back({Health::kOk, "system", environment.os});
  std::string processor = environment.cpu.empty() ? "unknown" : environment.cpu;
  processor += ", " + std::to_string(environment.cores) + " cores usable, " +
               std::to_string(environment.threads) + " threads";
  const bool oversubscribed = environment.threads > environment.cores && environment.cores > 0;
  if (oversubscribed) processor += ": more threads than cores slow everything; set OMP_NUM_THREADS";
  checks.push_back({oversubscribed ? Health::kFault : Health::kOk, "processor", processor});
  checks.push_back({Health::kOk, "memory", size_text(environment.memory_bytes)});
  for (const auto& [name, version] : environment.libraries)
    checks.push_back({Health::kOk, "library", name + " " + version});
  return checks;
}

std::vector<Check> check_data(const fs::path& data_root) {
  if (data_root.empty())
    return {{Health::kAbsent, "data",
             "GPTQ_BENCH_DATA is not set: only the built-in text and own files can be used"}};
  if (!fs::is_directory(data_root))
    return {{Health::kFault, "data",
             "GPTQ_BENCH_DATA is " + data_root.string() + ", which is no folder"}};
  std::vector<Check> checks = {{Health::kOk, "data", data_root.string()}};
  for (const KnownFile& file : kKnownFiles) {
    const auto found = find_spelling(data_root / file.path);
    checks.push_back({found ? Health::kOk : Health::kAbsent, file.dataset,
                      found ? found->string()
                            : std::string(file.path) + " is not there (plain, .gz, .xz or .zst)"});
  }
  return checks;
}

std::vector<Check> check_models(const fs::path& models_root) {
  if (models_root.empty())
    return {{Health::kAbsent, "models", "GPTQ_BENCH_MODELS is not set: give full paths instead"}};
  if (!fs::is_directory(models_root))
    return {{Health::kFault, "models",
             "GPTQ_BENCH_MODELS is " + models_root.string() + ", which is no folder"}};
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(models_root))
    if (fs::exists(entry.path() / "config.json")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return {{names.empty() ? Health::kAbsent : Health::kOk, "models",
           models_root.string() + ": " +
               (names.empty() ? std::string("no folder with a config.json") : join(names, ", "))}};
}

std::vector<Check> check_output(const fs::path& output) {
  std::error_code ignored;
  const bool existed = fs::exists(output, ignored);
  std::string reason;
  const bool writable = is_writable(output, reason);
  if (!existed) fs::remove(output, ignored);
  if (!writable) return {{Health::kFault, "results", reason}};
  const auto space = fs::space(existed ? output : fs::absolute(output).parent_path(), ignored);
  std::string text = output.string() + " can be written";
  if (!ignored) text += ", " + bytes_text(static_cast<double>(space.available)) + " free";
  return {{Health::kOk, "results", text}};
}

std::string doctor_text(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& check : checks) {
    switch (check.health) {
      case Health::kOk:
        text += "ok  ";
        break;
      case Health::kAbsent:
        text += "--  ";
        break;
      case Health::kFault:
        text += "!!  ";
        break;
    }
    text += check.topic + ": " + check.text + "\n";
  }
  return text;
}

std::string doctor_report(const DoctorOptions& options) {
  std::vector<Check> checks;
  append(check_build(build_info()), checks);
  append(check_gpus(build_info(), kernels::cuda_info()), checks);
  append(check_machine(capture_environment("cpu", {})), checks);
  append(check_data(options.data_root), checks);
  append(check_models(options.models_root), checks);
  append(check_output(options.output), checks);
  return doctor_text(checks);
}

}  // namespace gptqb
