#include "runner/disk_plan.h"

#include "common/error.h"
#include "common/round_up.h"
#include "common/text.h"
#include "runner/environment.h"
#include "runner/record.h"

namespace gptqb {
namespace {

// A number as records have them: all digits of a double.
constexpr double kNumber = 0.12345678901234567;
// What a record holds beside the evaluators' metrics: bits, bytes, and seconds by phase.
constexpr int kOtherMetrics = 8;
constexpr int kDecodeMetrics = 11;  // beside the median, for each batch

bool is_quantized(const Cell& cell, const std::string& linear, const LayerChoice& choice) {
  return !choice.skip && choice.method != "none" && glob_match(cell.method().layers, linear);
}

int64_t groups_of(const QuantConfig& quant, int64_t in) {
  return quant.group_size < 0 ? 1 : divide_up(in, quant.group_size);
}

// Groups whose columns lie anywhere need an index.
bool has_index(const Cell& cell, const QuantConfig& quant) {
  return cell.method().act_order && !cell.method().static_groups && quant.group_size > 0;
}

// As KeptLinear has it.
int64_t kept_bytes(const Cell& cell, const LayerChoice& choice, int64_t in, int64_t out) {
  const QuantConfig& quant = choice.quant;
  if (choice.method == "llm_int8") return in * out + 4 * out;
  const int64_t groups = out * groups_of(quant, in);
  // Two magnitudes and a zero in f32.
  if (quant.ternary()) return divide_up(in * out, 8) * 2 + groups * 3 * 4;
  // Scales in f32, zero points in bytes.
  return divide_up(in * out, 8) * quant.bits + groups * 5 + (has_index(cell, quant) ? 4 * in : 0);
}

LayerHealth typical_health(const std::string& name, const LayerChoice& choice, bool calibrated) {
  LayerHealth health;
  health.layer = name;
  health.method = choice.method;
  health.bits = choice.quant.bits;
  health.group_size = choice.quant.group_size;
  health.codes = std::string(16, '0');
  health.rule = choice.rule;
  for (double* number : {&health.seconds_hessian, &health.seconds_factor, &health.seconds_solve,
                         &health.seconds_errors})
    *number = kNumber;
  if (!calibrated) return health;
  for (std::optional<double>* number :
       {&health.loss, &health.relative_error, &health.relative_error_heldout,
        &health.relative_error_rtn, &health.drift, &health.damping, &health.condition})
    *number = kNumber;
  return health;
}

// The record itself, with numbers that stand for those to come.
int64_t record_bytes(const Cell& cell, std::vector<LayerHealth> layers) {
  Record record;
  record.cell = cell.canonical();
  record.settings = cell.settings();
  record.layers = std::move(layers);
  record.environment = capture_environment("cpu", {});
  const auto add = [&](const std::string& name, int64_t samples) {
    Metric metric;
    metric.name = name;
    metric.value = kNumber;
    metric.samples.assign(static_cast<size_t>(samples), kNumber);
    record.metrics.push_back(std::move(metric));
  };
  for (const EvaluatorSpec& evaluator : cell.evaluators()) {
    if (evaluator.name == "decode_latency") {
      const DecodeTask& task = evaluator.decode;
      for (const int64_t batch : task.batch) {
        const std::string prefix = "decode.batch" + std::to_string(batch);
        add(prefix + ".ms_per_token", task.repeats * task.generate);
        for (int i = 0; i < kDecodeMetrics; ++i) add(prefix + ".bytes_activations", 0);
      }
      continue;
    }
    for (const DatasetSpec& dataset : evaluator.datasets)
      add(evaluator.name + "." + dataset.label(), evaluator.max_windows);
  }
  for (int i = 0; i < kOtherMetrics; ++i) add("seconds.quantize_published_scope", 0);
  return static_cast<int64_t>(to_json(record).size());
}

}  // namespace

int64_t packed_bytes(const QuantConfig& quant, int64_t out, int64_t in) {
  const int64_t groups = groups_of(quant, in);
  return 4 * divide_up(in * quant.bits, 32) * out + 4 * divide_up(out * quant.bits, 32) * groups +
         2 * groups * out + 4 * in;
}

DiskPlan plan_disk(const Cell& cell, const ModelSizes& sizes,
                   const std::vector<std::string>& linears, const DiskTask& task) {
  DiskPlan plan;
  std::vector<LayerHealth> layers;
  int64_t dense_elements = sizes.end_elements;
  for (const int64_t elements : sizes.block_tensors) dense_elements += sizes.blocks * elements;
  auto name = linears.begin();
  for (int64_t block = 0; block < sizes.blocks && !cell.dense(); ++block)
    for (const ModelSizes::Stage& stage : sizes.stages)
      for (const int64_t out : stage.outs) {
        if (name == linears.end())
          throw Error("plan_disk",
                      "expected a name for each linear, got " + std::to_string(linears.size()));
        const LayerChoice choice = cell.settings_for(*name);
        layers.push_back(typical_health(*name, choice, cell.needs_calibration()));
        if (is_quantized(cell, *name++, choice)) {
          plan.resume += kept_bytes(cell, choice, stage.in, out);
          plan.checkpoint += packed_bytes(choice.quant, out, stage.in);
          dense_elements -= stage.in * out;
          plan.hessians += stage.in * stage.in * 4;
        } else {
          layers.back().status = "skipped";
        }
      }
  if (const auto head = cell.head()) {
    const int64_t in = sizes.stages.empty() ? 0 : sizes.stages.front().in;
    plan.resume += kept_bytes(cell, {false, cell.method().name, *head, ""}, in, sizes.vocabulary);
    plan.checkpoint += packed_bytes(*head, sizes.vocabulary, in);
    dense_elements -= sizes.head_elements;
    plan.hessians += in * in * 4;
  }
  plan.checkpoint += dense_elements * sizes.element_bytes;
  plan.record = record_bytes(cell, std::move(layers));
  if (!task.resume || cell.dense()) plan.resume = 0;
  if (!task.save || cell.dense()) plan.checkpoint = 0;
  if (!task.hessians || !cell.needs_calibration()) plan.hessians = 0;
  return plan;
}

}  // namespace gptqb
