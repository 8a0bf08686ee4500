#include "methods/memory_plan.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "common/error.h"

namespace gptqb {
namespace {

// A solver's copies of a linear's weights in its own precision: weights, what is left of them,
// errors, grids, and what RTN and the codes dequantize to, each with its intermediates.
constexpr int64_t kSolverCopies = 12;
// H, its copy in sweep order, and its factor.
constexpr int64_t kFactorCopies = 3;
// Products of inputs are summed beside the two sums they are added to.
constexpr int64_t kHessianCopies = 3;
// Hidden-wide and inner-wide intermediates of a pass over a block that exist at once.
constexpr int64_t kHiddenCopies = 8;
constexpr int64_t kInnerCopies = 2;
// Logits of an evaluation, as head_rows() allows them.
constexpr int64_t kLogitsOnGpu = int64_t{1} << 31;
constexpr int64_t kLogitsOnCpu = int64_t{1} << 28;
// On the CPU, of 16 parts one more: what a heap of large pieces leaves unused.
constexpr int64_t kHeapParts = 16;
// Host memory that CUDA and its libraries take once they are used: 0.9 GiB on an H200.
constexpr int64_t kGpuLibraries = int64_t{1} << 30;
// Code, and scale and zero of a group.
constexpr int64_t kCodeBytes = 1;
constexpr int64_t kGroupBytes = 5;

int64_t square(int64_t value) { return value * value; }

int64_t sum(const MemoryPlan::Needs& needs) {
  int64_t bytes = 0;
  for (const auto& [what, size] : needs) bytes += size;
  return bytes;
}

// The allocator of pinned memory rounds up to powers of two.
int64_t pinned(int64_t bytes) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(bytes, 1))));
}

std::string gib(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", bytes < int64_t{10} << 30 ? 2 : 1,
                static_cast<double>(bytes) / (int64_t{1} << 30));
  return text;
}

// "1.20 GiB (block 0.50, next block 0.50, ...)", the largest first.
std::string needs_text(MemoryPlan::Needs needs) {
  std::stable_sort(needs.begin(), needs.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string parts;
  for (const auto& [what, bytes] : needs)
    if (bytes > 0) parts += (parts.empty() ? "" : ", ") + what + " " + gib(bytes);
  return gib(sum(needs)) + " GiB (" + parts + ")";
}

class Planner {
 public:
  Planner(const ModelSizes& model, const MemoryTask& task) : model_(model), task_(task) {
    for (const ModelSizes::Stage& stage : model.stages) {
      int64_t out = 0;
      for (const int64_t width : stage.outs) {
        out += width;
        largest_linear_ = std::max(largest_linear_, stage.in * width);
      }
      widest_in_ = std::max(widest_in_, stage.in);
      widest_stage_ = std::max(widest_stage_, stage.in + out);
      const int64_t groups =
          task.group_size < 0 ? 1 : (stage.in + task.group_size - 1) / task.group_size;
      finished_block_ += out * (stage.in * kCodeBytes + groups * kGroupBytes);
      sum_of_squares_ += square(stage.in);
    }
  }

  MemoryPlan plan(bool activations_on_host, FinishedBlocks finished) const {
    MemoryPlan plan;
    plan.activations_on_host = activations_on_host;
    plan.finished = finished;
    plan.activation_bytes = stream_bytes(false);
    MemoryPlan::Needs work = quantizing(activations_on_host);
    if (task_.evaluates)
      if (MemoryPlan::Needs other = evaluating(); sum(other) > sum(work)) work = std::move(other);
    plan.host = {{"program", task_.program_bytes}, {"next block", next_block_bytes()}};
    if (task_.on_gpu) plan.host.emplace_back("GPU libraries", kGpuLibraries);
    if (activations_on_host) plan.host.emplace_back("activations", stream_bytes(true));
    if (task_.quantizes && finished == FinishedBlocks::kInMemory)
      plan.host.emplace_back("codes", model_.blocks * finished_block_);
    else if (task_.quantizes)
      plan.host.emplace_back("codes of a block", finished_block_);
    if (task_.on_gpu)
      plan.device = std::move(work);
    else
      plan.host.insert(plan.host.end(), work.begin(), work.end());
    if (!task_.on_gpu) plan.host.emplace_back("heap", plan.host_bytes() / kHeapParts);
    return plan;
  }

 private:
  int64_t hidden() const { return model_.stages.empty() ? 0 : model_.stages.front().in; }
  int64_t block_bytes() const {
    int64_t elements = 0;
    for (const int64_t count : model_.block_tensors) elements += count;
    return elements * model_.element_bytes;
  }
  int64_t next_block_bytes() const {
    // Drawing or converting a tensor takes its size again.
    if (!task_.on_gpu) return block_bytes() + largest_linear_ * 4;
    int64_t bytes = 0;
    for (const int64_t count : model_.block_tensors) bytes += pinned(count * model_.element_bytes);
    return bytes;
  }

  // Hidden states of calibration and held-out windows, and what lies between stages. Pinned memory
  // that is free again is kept for a piece of its size: inputs of stages come in two.
  int64_t stream_bytes(bool is_pinned) const {
    const auto bytes_of = [&](int64_t tokens, int64_t width) {
      const int64_t bytes = tokens * width * model_.element_bytes;
      if (!is_pinned || tokens == 0) return bytes;
      const int64_t pass = std::min(tokens, std::max<int64_t>(1, task_.tokens_per_pass));
      return (tokens + pass - 1) / pass * pinned(pass * width * model_.element_bytes);
    };
    std::vector<int64_t> widths = {hidden()};
    if (task_.true_sequential) widths.push_back(widest_in_);
    if (task_.true_sequential && is_pinned) widths.push_back(hidden());
    int64_t bytes = bytes_of(task_.heldout_tokens, hidden());
    for (const int64_t width : widths)
      bytes += bytes_of(task_.calibration_tokens, width) + bytes_of(task_.heldout_tokens, width);
    if (task_.dense_inputs) bytes += bytes_of(task_.calibration_tokens, hidden());
    return bytes;
  }

  int64_t pass_bytes() const {
    const int64_t features = kHiddenCopies * hidden() + kInnerCopies * widest_stage_;
    return task_.tokens_per_pass * (features * model_.element_bytes + widest_in_ * 4);
  }

  MemoryPlan::Needs quantizing(bool activations_on_host) const {
    const int64_t compute = task_.wide_compute ? 8 : 4;
    MemoryPlan::Needs needs = {{"block", block_bytes()},
                               {"embedding and head", model_.end_elements * model_.element_bytes}};
    if (!activations_on_host) needs.emplace_back("activations", stream_bytes(false));
    if (!task_.quantizes) return needs;
    const bool has_inputs = task_.calibration_tokens > 0;
    const int64_t factor = has_inputs ? kFactorCopies * square(widest_in_) * compute : 0;
    const int64_t solver = largest_linear_ * (kSolverCopies * compute + 2 * kCodeBytes);
    // A pass and a solver do not run at once.
    if (pass_bytes() > solver + factor) {
      needs.emplace_back("pass over a block", pass_bytes());
    } else {
      needs.emplace_back("factor", factor);
      needs.emplace_back("solver", solver);
    }
    if (has_inputs) {
      const int64_t squares = task_.true_sequential ? square(widest_in_) : sum_of_squares_;
      const int64_t sums = task_.heldout_tokens > 0 ? kHessianCopies - 1 : 1;
      needs.emplace_back("Hessians", (sums * squares + square(widest_in_)) * 4);
    }
    return needs;
  }

  MemoryPlan::Needs evaluating() const {
    return {{"block", block_bytes()},
            {"embedding and head", model_.end_elements * model_.element_bytes},
            {"evaluation windows", task_.evaluation_tokens * hidden() * model_.element_bytes},
            {"pass over a block", pass_bytes()},
            {"logits", std::min(task_.on_gpu ? kLogitsOnGpu : kLogitsOnCpu,
                                task_.evaluation_tokens * model_.vocabulary * 4)}};
  }

  const ModelSizes& model_;
  const MemoryTask& task_;
  int64_t widest_in_ = 0;
  int64_t widest_stage_ = 0;
  int64_t largest_linear_ = 0;
  int64_t sum_of_squares_ = 0;
  int64_t finished_block_ = 0;  // its codes
};

[[noreturn]] void refuse(const char* key, const MemoryPlan::Needs& needs, int64_t limit,
                         const char* advice) {
  throw Error(key,
              "expected at least " + needs_text(needs) + ", got " + gib(limit) + " GiB. " + advice);
}

}  // namespace

int64_t MemoryPlan::device_bytes() const { return sum(device); }
int64_t MemoryPlan::host_bytes() const { return sum(host); }

std::string MemoryPlan::text() const {
  std::string text = device.empty() ? "" : "device " + needs_text(device) + ", ";
  text += "host " + needs_text(host);
  if (activations_on_host) text += ", activations on the host";
  if (finished == FinishedBlocks::kOnDisk) text += ", finished blocks on disk";
  return text;
}

MemoryPlan plan_memory(const ModelSizes& model, const MemoryTask& task,
                       const MemoryLimits& limits) {
  const Planner planner(model, task);
  const auto above = [](int64_t bytes, std::optional<int64_t> limit) {
    return limit && bytes > *limit;
  };
  MemoryLimits held = limits;
  const bool device_is_smaller = limits.device && (!limits.host || *limits.device < *limits.host);
  if (!task.on_gpu && device_is_smaller) held.host = limits.device;

  bool activations_on_host = false;
  FinishedBlocks finished = task.evaluates ? FinishedBlocks::kInMemory : FinishedBlocks::kNowhere;
  MemoryPlan plan = planner.plan(activations_on_host, finished);
  if (task.on_gpu && above(plan.device_bytes(), held.device)) {
    activations_on_host = true;
    plan = planner.plan(activations_on_host, finished);
    if (above(plan.device_bytes(), held.device))
      refuse("limits.device_memory", plan.device, *held.device,
             "Use a device with more memory, or the CPU");
  }
  if (task.evaluates && above(plan.host_bytes(), held.host)) {
    finished = FinishedBlocks::kOnDisk;
    plan = planner.plan(activations_on_host, finished);
  }
  if (above(plan.host_bytes(), held.host))
    refuse(!task.on_gpu && device_is_smaller ? "limits.device_memory" : "limits.host_memory",
           plan.host, *held.host, "Use fewer or shorter calibration windows, or more memory");
  return plan;
}

}  // namespace gptqb
