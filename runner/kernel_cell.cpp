#include "runner/kernel_cell.h"

#include <chrono>

#include "common/text.h"
#include "eval/kernel_bench.h"
#include "runner/kernel_settings.h"

namespace gptqb {
namespace {

Metric reading(const std::string& name, double value, const std::string& unit) {
  Metric metric;
  metric.name = name;
  metric.value = value;
  metric.unit = unit;
  return metric;
}

}  // namespace

std::string run_kernel_cell(const Cell& cell, const RunOptions& options, Record& record) {
  const auto start = std::chrono::steady_clock::now();
  Progress& progress = options.progress ? *options.progress : silent_progress();
  const KernelBenchResult result =
      bench_kernels(kernel_bench_of(cell), at::Device(options.device), progress,
                    options.kernels ? *options.kernels : registered_kernels());
  record.kernels = result.rows;
  record.notes.insert(record.notes.end(), result.notes.begin(), result.notes.end());
  record.metrics.push_back(
      reading("kernels.read.gb_per_s", 1e-9 * result.read_bytes_per_second, "GB/s"));
  for (const auto& [type, rate] : result.dense_flops_per_second)
    record.metrics.push_back(reading("kernels." + type + ".tflop_per_s", 1e-12 * rate, "TFLOP/s"));
  record.seeds["kernels"] = cell.kernels().seed;
  record.seconds["cell"] =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::vector<std::string> reasons;
  for (const KernelFailure& failure : result.failures) reasons.push_back(failure.reason);
  return join(reasons, "; ");
}

}  // namespace gptqb
