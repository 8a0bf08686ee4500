// Commands that only read: report, list, schema, doctor.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/text.h"
#include "datasets/dataset.h"
#include "eval/evaluator.h"
#include "eval/kernel_bench.h"
#include "kernels/device_info.h"
#include "methods/matmul_device.h"
#include "methods/quantizer.h"
#include "models/architecture.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"
#include "runner/doctor.h"
#include "runner/footprints.h"
#include "runner/output_lock.h"
#include "runner/report/report.h"
#include "runner/schema.h"

namespace gptqb {
namespace {

// The records of an output folder; a folder without any is bad input, a damaged record is named.
LoadedRecords records_of(const std::string& folder, std::ostream& err) {
  LoadedRecords loaded = load_records(folder);
  for (const std::string& message : loaded.damaged) err << "gptq-bench: " << message << '\n';
  if (loaded.records.empty())
    throw Error(folder, "expected records in " +
                            (std::filesystem::path(folder) / "records").string() + ", found none");
  return loaded;
}

// `reason(entry)`: why it cannot run here; empty if it can.
template <class Factory, class Reason>
void print_entries(const Registry<Factory>& registry, std::ostream& out, const Reason& reason) {
  size_t width = 0;
  for (const auto& entry : registry.entries()) width = std::max(width, entry.name.size());
  for (const auto& entry : registry.entries()) {
    out << entry.name << std::string(width + 2 - entry.name.size(), ' ') << entry.summary;
    if (const std::string why = reason(entry); !why.empty()) out << " (not here: " << why << ")";
    out << '\n';
  }
}

template <class Factory>
void print_entries(const Registry<Factory>& registry, std::ostream& out) {
  print_entries(registry, out, [](const auto& entry) { return entry.unavailable; });
}

// A kernel that this build has may still find no device: what it says to an ordinary problem.
void print_kernels(std::ostream& out) {
  const kernels::CudaInfo cuda = kernels::cuda_info();
  std::vector<kernels::MatmulDevice> devices = {{}};
  for (const kernels::DeviceInfo& device : cuda.devices)
    if (device.unusable.empty())
      devices.push_back(
          matmul_device(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index))));
  const kernels::MatmulProblem problem{.m = 1, .n = 4096, .k = 4096};
  print_entries(kernels::matmul_kernels(), out, [&](const auto& entry) {
    std::string reason = entry.unavailable;
    if (!reason.empty()) return reason;
    const auto kernel = entry.make();
    for (const kernels::MatmulDevice& device : devices) {
      reason = kernel->refusal(problem, device);
      if (reason.empty()) break;
    }
    if (!reason.empty() && devices.size() == 1 && !cuda.unavailable.empty())
      reason = cuda.unavailable;
    return reason;
  });
}

}  // namespace

int report_command(const std::string& folder, const std::string& format, std::ostream& out,
                   std::ostream& err) {
  const auto& entry = report_formats().at(format);
  // Only where runs write: published results stay as they are.
  std::optional<OutputLock::Held> held;
  if (OutputLock::is_used_in(folder)) held.emplace(OutputLock(folder).wait_name(kTablesLock));
  LoadedRecords loaded = records_of(folder, err);
  const bool damaged = !loaded.damaged.empty();
  const ReportData data = report_data(std::move(loaded), folder);
  write_reports(folder, data);
  out << entry.make.render(data);
  return damaged ? kExitFailed : kExitOk;
}

int list_command(const std::string& kind, std::ostream& out) {
  if (kind == "methods")
    print_entries(quantizers(), out);
  else if (kind == "kernels")
    print_kernels(out);
  else if (kind == "datasets")
    print_entries(datasets(), out);
  else if (kind == "architectures")
    print_entries(architectures(), out);
  else if (kind == "evaluators")
    print_entries(evaluators(), out);
  else if (kind == "reports")
    print_entries(report_formats(), out);
  else if (kind == "footprints")
    out << footprints_text();
  else
    throw Error("list", unknown_name(kind, {"methods", "kernels", "datasets", "architectures",
                                            "evaluators", "reports", "footprints"}));
  return kExitOk;
}

int schema_command(std::ostream& out) {
  out << schema_markdown();
  return kExitOk;
}

int doctor_command(std::ostream& out) {
  const char* models = std::getenv("GPTQ_BENCH_MODELS");
  out << doctor_report({.data_root = data_root(), .models_root = models ? models : ""});
  return kExitOk;
}

}  // namespace gptqb
