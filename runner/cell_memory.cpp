#include "runner/cell_memory.h"

#include <algorithm>

#include "common/error.h"
#include "methods/block_model.h"
#include "runner/decode_cell.h"
#include "runner/environment.h"

namespace gptqb {
namespace {

bool is_gpu(const std::string& device) { return device.starts_with("cuda"); }

std::string model_name(const Cell& cell) {
  const SyntheticModel& synthetic = cell.model().synthetic;
  return synthetic.asked() ? synthetic.name() : cell.model().path_unexpanded;
}

// Of a weight among the finished blocks, at most.
int64_t bits_kept(const Cell& cell) {
  if (cell.method().name == "external") return 32;  // it may answer with dense weights
  if (cell.method().name == "llm_int8" || !cell.overrides().empty()) return 8;
  return cell.quant().ternary() ? 2 : cell.quant().bits;
}

// What a plan takes in all, for comparing cells.
int64_t total_bytes(const ModelSizes& sizes, const MemoryTask& task) {
  const MemoryPlan plan = plan_memory(sizes, task, {});
  return plan.device_bytes() + plan.host_bytes();
}

bool saves_blocks(const Plan& plan) { return plan.resume || plan.save.has_value(); }

bool evaluates_all_windows(const Cell& cell) {
  const auto& evaluators = cell.evaluators();
  return std::any_of(evaluators.begin(), evaluators.end(),
                     [](const EvaluatorSpec& each) { return each.max_windows == 0; });
}

std::string plan_text(const ModelSizes& sizes, const MemoryTask& task, const MemoryLimits& limits) {
  try {
    return plan_memory(sizes, task, limits).text();
  } catch (const Error& error) {
    return std::string("does not fit: ") + error.what();
  }
}

}  // namespace

int64_t calibration_sequences_per_pass(const Cell& cell, at::Device device) {
  return cell.method().solver == SolverKind::kReference
             ? 1
             : sequences_per_pass(device, cell.calibration().seqlen);
}

MemoryTask memory_task(const Cell& cell, const std::string& device, bool saves_blocks) {
  const at::Device kind = is_gpu(device) ? at::kCUDA : at::kCPU;
  MemoryTask task;
  task.on_gpu = is_gpu(device);
  task.program_bytes = resident_bytes();
  task.quantizes = !cell.dense();
  task.saves_blocks = saves_blocks;
  if (cell.needs_calibration()) {
    const int64_t seqlen = cell.calibration().seqlen;
    task.calibration_tokens = cell.calibration().samples * seqlen;
    task.heldout_tokens = cell.calibration().heldout * seqlen;
    task.tokens_per_pass =
        std::min(calibration_sequences_per_pass(cell, kind) * seqlen, task.calibration_tokens);
    task.seqlen = seqlen;
  }
  task.published_sums = cell.method().solver == SolverKind::kReference;
  task.true_sequential = cell.method().true_sequential;
  task.dense_inputs = cell.method().inputs == StatsInputs::kDense;
  task.wide_compute = cell.method().compute == ComputeDtype::kFloat64;
  task.quantizes_head = cell.head().has_value();
  task.bits = bits_kept(cell);
  task.group_size = cell.quant().group_size;
  // A sample of rows is not evaluated; a linear of fewer rows is no sample.
  for (const EvaluatorSpec& evaluator : cell.evaluators()) {
    if (evaluator.name == "decode_latency") {
      // Planned by decode_memory(); only the model that the cell quantized reads its blocks again.
      task.evaluates = task.evaluates || !times_its_codes(cell);
      continue;
    }
    task.evaluates = true;
    int64_t batch =
        evaluator.batch > 0 ? evaluator.batch : sequences_per_pass(kind, evaluator.seqlen);
    if (evaluator.max_windows > 0) batch = std::min(batch, evaluator.max_windows);
    task.evaluation_tokens_per_pass =
        std::max(task.evaluation_tokens_per_pass, batch * evaluator.seqlen);
    task.seqlen = std::max(task.seqlen, evaluator.seqlen);
    task.evaluation_tokens =
        std::max(task.evaluation_tokens, evaluator.max_windows * evaluator.seqlen);
  }
  return task;
}

MemoryLimits within_machine(MemoryLimits limits, const std::string& device) {
  const Environment machine = capture_environment(device, {});
  if (!limits.host && machine.memory_bytes > 0) limits.host = machine.memory_bytes;
  if (!limits.device && machine.gpu_memory_bytes > 0) limits.device = machine.gpu_memory_bytes;
  return limits;
}

void skip_what_does_not_fit(Plan& plan, const std::map<std::string, ModelSizes>& sizes,
                            const std::string& device) {
  const MemoryLimits limits = within_machine(plan.limits, device);
  for (PlannedCell& planned : plan.cells) {
    const auto known = sizes.find(planned.cell.id());
    if (!planned.skip_reason.empty() || known == sizes.end()) continue;
    try {
      plan_memory(known->second, memory_task(planned.cell, device, saves_blocks(plan)), limits);
    } catch (const Error& error) {
      planned.skip_reason = std::string("does not fit: ") + error.what();
    }
  }
}

std::string memory_lines(const Plan& plan, const std::map<std::string, ModelSizes>& sizes) {
  std::string text;
  std::map<std::string, const Cell*> largest;
  std::vector<std::string> order;
  const auto need = [&](const Cell& cell) {
    return total_bytes(sizes.at(cell.id()), memory_task(cell, "cuda", saves_blocks(plan)));
  };
  for (const PlannedCell& planned : plan.cells) {
    if (!planned.skip_reason.empty() || !sizes.contains(planned.cell.id())) continue;
    const Cell*& cell = largest[model_name(planned.cell)];
    if (cell == nullptr) order.push_back(model_name(planned.cell));
    if (cell == nullptr || need(planned.cell) > need(*cell)) cell = &planned.cell;
  }
  for (const std::string& name : order) {
    const Cell& cell = *largest[name];
    const std::string head = "memory of " + name + ", " + cell.summary();
    for (const char* device : {"cuda", "cpu"}) {
      // A GPU need not be here to plan for it, so only a limit that was given counts.
      const bool gpu = is_gpu(device);
      const MemoryLimits limits = gpu ? plan.limits : within_machine(plan.limits, device);
      text +=
          head + (gpu ? " on a GPU: " : " on the CPU: ") +
          plan_text(sizes.at(cell.id()), memory_task(cell, device, saves_blocks(plan)), limits) +
          (evaluates_all_windows(cell) ? "; windows of evaluations without max_windows are "
                                         "counted when they are read"
                                       : "") +
          "\n";
    }
  }
  return text;
}

}  // namespace gptqb
