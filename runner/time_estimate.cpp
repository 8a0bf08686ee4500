#include "runner/time_estimate.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <tuple>

#include "common/error.h"
#include "common/text.h"
#include "methods/quantize_model.h"
#include "runner/block_timer.h"
#include "runner/cell_run.h"
#include "runner/environment.h"
#include "runner/model_checks.h"
#include "runner/report/number_format.h"

namespace gptqb {
namespace {

// Passes of windows that are evaluated; the first pays for what happens once.
constexpr int64_t kFewPasses = 3;

// What decides the time, of settings by key.
std::map<std::string, std::string> timed_settings(
    const std::vector<std::pair<std::string, std::string>>& settings) {
  std::map<std::string, std::string> result(settings.begin(), settings.end());
  for (const char* key : {"calibration.seed", "calibration.dataset", "calibration.draw",
                          "method.damping", "quant.symmetric"})
    result.erase(key);
  if (result.contains("quant.bits") && result["quant.bits"] != "ternary")
    result.erase("quant.bits");
  return result;
}

// One block stands for all only where all get the same.
void check_blocks_alike(const Cell& cell, const BlockModel& model) {
  const std::vector<std::string> linears = linear_names(model);
  const size_t in_a_block = linears.size() / static_cast<size_t>(model.block_count());
  const auto treatment = [&](const std::string& linear) {
    const LayerChoice choice = cell.settings_for(linear);
    return std::tuple(choice.skip || !glob_match(cell.method().layers, linear), choice.method,
                      choice.quant.bits, choice.quant.group_size);
  };
  for (size_t i = in_a_block; i < linears.size(); ++i)
    if (treatment(linears[i]) != treatment(linears[i % in_a_block]))
      throw Error("time", "expected blocks with the same settings, got others for " + linears[i] +
                              ": no block stands for all");
}

// The first windows of each input, so many passes of them at most.
struct Part {
  std::vector<std::vector<TokenWindows>> windows;
  std::vector<std::vector<EvaluationInput>> inputs;
  double tokens = 0;
};

Part first_passes(const Cell& cell, const PreparedCell& prepared, int64_t passes) {
  Part part;
  for (size_t i = 0; i < prepared.evaluations.size(); ++i) {
    const EvaluatorSpec& evaluator = cell.evaluators()[i];
    std::vector<TokenWindows>& kept = part.windows.emplace_back();
    for (const EvaluationInput& input : prepared.evaluations[i]) {
      TokenWindows& windows = kept.emplace_back(*input.windows);
      const int64_t batch = evaluator.batch > 0
                                ? evaluator.batch
                                : sequences_per_pass(prepared.model->device(), windows.seqlen);
      windows.count = std::min(windows.count, passes * batch);
      windows.ids.resize(static_cast<size_t>(windows.count * windows.seqlen));
      part.tokens += static_cast<double>(windows.count * windows.seqlen);
    }
    std::vector<EvaluationInput>& inputs = part.inputs.emplace_back();
    for (size_t j = 0; j < kept.size(); ++j)
      inputs.push_back({prepared.evaluations[i][j].name, &kept[j]});
  }
  return part;
}

double seconds_of_evaluation(const Cell& cell, PreparedCell& prepared, const Part& part) {
  return seconds_of(prepared.model->device(), [&] {
    evaluate_cell(cell, *prepared.model, part.inputs, prepared.dense, InputCache::kStatesBytes,
                  nullptr);
  });
}

double evaluation_seconds(const Cell& cell, PreparedCell& prepared, std::string& how) {
  if (cell.evaluators().empty() || cell.method().rows > 0) return 0;
  const Part all = first_passes(cell, prepared, std::numeric_limits<int32_t>::max());
  const Part few = first_passes(cell, prepared, kFewPasses);
  if (few.tokens == all.tokens) {
    how = "all windows";
    return seconds_of_evaluation(cell, prepared, all);
  }
  const Part one = first_passes(cell, prepared, 1);
  const double first = seconds_of_evaluation(cell, prepared, one);
  const double more = seconds_of_evaluation(cell, prepared, few);
  how = std::to_string(kFewPasses) + " passes of windows";
  // Each token costs what those of the later passes did.
  return first +
         std::max(0.0, more - first) / (few.tokens - one.tokens) * (all.tokens - one.tokens);
}

// For what an external program is handed: gone with this object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "gptq-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw Error(pattern, std::string("cannot make a folder: ") + std::strerror(errno));
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

double quantize_seconds(const Cell& cell, PreparedCell& prepared, const RunOptions& options,
                        std::string& how) {
  if (cell.dense()) return 0;
  check_blocks_alike(cell, *prepared.model);
  const MemoryPlan memory = memory_of(cell, prepared, options);
  PhaseClock clock(prepared.model->device(), "idle");
  Progress& progress = options.progress ? *options.progress : silent_progress();
  BlockTimer timer(progress, prepared.model->device(), /*stop=*/!cell.head().has_value());
  const ScratchFolder scratch;
  RunOptions timed = options;
  timed.progress = &timer;
  timed.output = scratch.path();
  try {
    const QuantizeReport report =
        quantize_cell(cell, prepared, nullptr, nullptr, memory, timed, clock);
    how = "all blocks";
    return report.seconds_total;
  } catch (const EnoughBlocks&) {
    how = "2 blocks";
    return *timer.planned();
  }
}

}  // namespace

std::optional<TimeEstimate> estimate_from_records(const Cell& cell,
                                                  const std::vector<Record>& records,
                                                  const Environment& here) {
  const auto wanted = timed_settings(cell.settings());
  double sum = 0;
  int64_t count = 0;
  for (const Record& record : records) {
    const auto total = find_metric(record, "seconds.cell");
    if (record.status != CellStatus::kOk || record.resumed_blocks > 0 || !total ||
        !same_device(record.environment, here) || timed_settings(record.settings) != wanted)
      continue;
    sum += total->value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return TimeEstimate{
      sum / static_cast<double>(count),
      count == 1 ? "1 earlier record" : "mean of " + std::to_string(count) + " earlier records"};
}

TimeEstimate measure_time(const Cell& cell, InputCache& cache, const RunOptions& options) {
  c10::InferenceMode inference;
  const at::Device device(options.device);
  std::optional<PreparedCell> prepared;
  const double read =
      seconds_of(device, [&] { prepared.emplace(prepare_cell(cell, cache, options)); });
  std::string blocks, windows;
  const double quantize = quantize_seconds(cell, *prepared, options, blocks);
  // Some of its blocks hold codes by now.
  prepared->model = cache.open(cell, options.device);
  const double evaluation = evaluation_seconds(cell, *prepared, windows);
  if (prepared->dense) prepared->dense->close();
  TimeEstimate estimate;
  estimate.seconds = read + quantize + evaluation;
  estimate.how = "measured: read " + duration_text(read);
  if (!blocks.empty()) estimate.how += ", quantize " + duration_text(quantize) + " by " + blocks;
  if (!windows.empty())
    estimate.how += ", evaluation " + duration_text(evaluation) + " by " + windows;
  return estimate;
}

}  // namespace gptqb
