#include "methods/memory_plan.h"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "common/error.h"

namespace gptqb {
namespace {

// While H is factored there are: H, the same reversed, its factor, and that turned back twice, for
// the library leaves it by column (reversed_cholesky.cpp).
constexpr int64_t kFactorCopies = 5;
// While columns are swept: the factor, and on a GPU its two halves for TF32; weights, the same by
// column, what errors carry, errors and their two halves (gptq_fast.cpp). Codes twice.
constexpr int64_t kSweepFactors = 3;
constexpr int64_t kSweepCopies = 6;
// While errors are measured: the factor and H; weights, f32 weights, error, and what RTN of the
// layer takes (layer_health.cpp).
constexpr int64_t kErrorFactors = 2;
constexpr int64_t kErrorCopies = 9;
// The published loop takes no more than the largest of these.

// Hidden states of a pass that exist at once in attention: residual, input, q, k, v, and what they
// come to.
constexpr int64_t kHiddenCopies = 6;
// And beside them one that is rotated, or a norm's f32.
constexpr int64_t kRotatedCopies = 2;
// Beside the inputs and outputs of one stage's linears: residual before and after, and the chunk.
constexpr int64_t kStageCopies = 3;
// Bytes of an attention score as tensor operations hold it: bias and score in two bytes each,
// softmax in f32, shares in two.
constexpr int64_t kScoreBytes = 10;
// f32 values of inputs that sums of H widen to at a time (second_moments_gpu.cpp).
constexpr int64_t kWidened = int64_t{1} << 28;
// Windows that wait for the published sums of H, and a copy (methods/block_passes.cpp).
constexpr int64_t kWaitingInputs = int64_t{1} << 27;
// Workspaces of cuBLAS and cuSOLVER: 30 to 92 MB were measured on an H200.
constexpr int64_t kGpuWorkspaces = int64_t{128} << 20;
// Logits of a window of an evaluation and what is made of them, in f32, up to what head_rows()
// allows.
constexpr int64_t kLogitCopies = 4;
constexpr int64_t kLogitsOnGpu = int64_t{1} << 31;
constexpr int64_t kLogitsOnCpu = int64_t{1} << 28;
// On the CPU, of 16 parts one more: what a heap of large pieces leaves unused.
constexpr int64_t kHeapParts = 16;
// And while layers are solved, of pieces below 32 MiB, which it does not give back: 40 to 120 MB
// were measured, the more the larger the model, which the share above grows with.
constexpr int64_t kHeapPieces = int64_t{80} << 20;
// Without statistics there are fewer: 8 MB were measured.
constexpr int64_t kHeapFewPieces = int64_t{16} << 20;
// Host memory that CUDA and its libraries take once they are used: 0.9 GiB on an H200.
constexpr int64_t kGpuLibraries = int64_t{1} << 30;
// Code, and scale and zero of a group.
constexpr int64_t kCodeBytes = 1;
constexpr int64_t kGroupBytes = 5;
// Finished blocks on their way to the disk: one is written while the next one is collected.
constexpr int64_t kBlocksWritten = 2;
// One that is on the disk, on its way back: pages of its file, and a copy.
constexpr int64_t kReadBackCopies = 2;

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

MemoryPlan::Needs largest(std::vector<MemoryPlan::Needs> choices) {
  return *std::max_element(choices.begin(), choices.end(),
                           [](const auto& a, const auto& b) { return sum(a) < sum(b); });
}

class Planner {
 public:
  Planner(const ModelSizes& model, const MemoryTask& task) : model_(model), task_(task) {
    for (const ModelSizes::Stage& stage : model.stages) {
      widest_in_ = std::max(widest_in_, stage.in);
      for (const int64_t out : stage.outs) {
        largest_linear_ = std::max(largest_linear_, stage.in * out);
        finished_block_ += kept_bytes(stage.in, out);
        written_block_ += written_bytes(stage.in, out);
      }
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
    if (task_.on_gpu && model_.mapped) plan.host.emplace_back("mapped files", mapped_bytes());
    if (activations_on_host) plan.host.emplace_back("activations", stream_bytes(true));
    if (task_.quantizes && finished == FinishedBlocks::kInMemory)
      plan.host.emplace_back("codes", model_.blocks * finished_block_);
    if (task_.quantizes && (task_.saves_blocks || finished == FinishedBlocks::kOnDisk))
      plan.host.emplace_back("blocks written", kBlocksWritten * written_block_);
    if (task_.quantizes && finished == FinishedBlocks::kOnDisk)
      plan.host.emplace_back("block read back", kReadBackCopies * finished_block_);
    if (task_.on_gpu) work.emplace_back("workspaces", kGpuWorkspaces);
    if (task_.on_gpu)
      plan.device = std::move(work);
    else
      plan.host.insert(plan.host.end(), work.begin(), work.end());
    if (!task_.on_gpu)
      plan.host.emplace_back("heap", plan.host_bytes() / kHeapParts + heap_pieces());
    return plan;
  }

 private:
  int64_t hidden() const { return model_.stages.empty() ? 0 : model_.stages.front().in; }
  int64_t compute() const { return task_.wide_compute ? 8 : 4; }
  int64_t heap_pieces() const {
    return !task_.quantizes ? 0 : has_inputs() ? kHeapPieces : kHeapFewPieces;
  }
  bool has_inputs() const { return task_.calibration_tokens > 0; }
  int64_t groups_of(int64_t in) const {
    return task_.group_size < 0 ? 1 : (in + task_.group_size - 1) / task_.group_size;
  }
  // Packed.
  int64_t kept_bytes(int64_t in, int64_t out) const {
    return (in * out + 7) / 8 * task_.bits + out * groups_of(in) * kGroupBytes;
  }
  // The same on its way from a GPU in pinned memory, codes and scales each for themselves.
  int64_t written_bytes(int64_t in, int64_t out) const {
    if (!task_.on_gpu) return kept_bytes(in, out);
    const int64_t codes = (in * out + 7) / 8 * task_.bits;
    const int64_t scales = out * groups_of(in) * 4;
    const int64_t zeros = out * groups_of(in);
    return pinned(codes) + pinned(scales) + pinned(zeros);
  }
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

  int64_t pass_bytes(int64_t tokens) const {
    int64_t features = 0;
    for (const ModelSizes::Stage& stage : model_.stages) {
      int64_t out = 0;
      for (const int64_t width : stage.outs) out += width;
      const int64_t copies = one_kernel_each() ? 1 : model_.activation_copies;
      features = std::max(features, stage.in + std::max(out * copies, out + hidden()));
    }
    const int64_t beside = std::max(kRotatedCopies * hidden(), fused_features());
    return std::max(values(tokens, kHiddenCopies * hidden() + beside) + score_bytes(tokens),
                    values(tokens, kStageCopies * hidden() + features));
  }

  // Of `features` a token.
  int64_t values(int64_t tokens, int64_t features) const {
    return tokens * features * model_.element_bytes;
  }

  // Whether activations and softmax are computed in place, as kernels of forward_ops.h do.
  bool one_kernel_each() const { return task_.on_gpu && model_.element_bytes == 2; }

  int64_t fused_features() const { return one_kernel_each() ? model_.fused_attention_features : 0; }

  int64_t score_bytes(int64_t tokens) const {
    if (model_.scores_at_once == 0 || fused_features() > 0) return 0;
    // Of all heads of a sequence, some queries at a time.
    if (one_kernel_each())
      return model_.element_bytes *
             std::min(model_.scores_at_once, task_.seqlen * task_.seqlen * model_.heads);
    const int64_t of_a_head = tokens * task_.seqlen;
    return kScoreBytes *
           std::min(std::max(model_.scores_at_once, of_a_head), of_a_head * model_.heads);
  }

  // Sums of H of stages of these widths, of both kinds of windows.
  int64_t sums(const std::vector<int64_t>& widths) const {
    if (!has_inputs()) return 0;
    int64_t squares = 0;
    for (const int64_t width : widths) squares += square(width);
    return (task_.heldout_tokens > 0 ? 2 : 1) * squares * 4;
  }

  // While a pass collects statistics: sums of all stages, or of the widest.
  MemoryPlan::Needs collecting() const {
    std::vector<int64_t> widths;
    for (const ModelSizes::Stage& stage : model_.stages) widths.push_back(stage.in);
    if (task_.true_sequential) widths = {widest_in_};
    const int64_t tokens = task_.tokens_per_pass;
    const int64_t inputs = values(tokens, kStageCopies * hidden() + widest_in_) + product_bytes();
    return {{"Hessians", sums(widths)},
            {"pass over a block", std::max(pass_bytes(tokens), inputs)}};
  }

  // Beside the sums, while one is added to.
  int64_t product_bytes() const {
    if (!has_inputs()) return 0;
    const int64_t widened = task_.tokens_per_pass * widest_in_ * 4;
    if (!task_.published_sums) return std::min(widened, kWidened);
    // A product of its own, of inputs in f32 that are scaled once more; beside it those that wait,
    // and all of them once more together.
    return square(widest_in_) * 4 + 2 * widened + kWaitingInputs;
  }

  // While a linear [out, in] is solved, `widths` being those of the stages still to come.
  MemoryPlan::Needs solving(int64_t in, int64_t out, const std::vector<int64_t>& widths) const {
    const int64_t h = has_inputs() ? square(in) * compute() : 0;
    const int64_t w = in * out * compute();
    const int64_t codes = 2 * in * out * kCodeBytes;
    MemoryPlan::Needs most = largest(
        {{{"factor", kFactorCopies * h}, {"solver", w}},
         {{"factor", kSweepFactors * h}, {"solver", kSweepCopies * w + codes}},
         {{"factor", kErrorFactors * h}, {"solver", kErrorCopies * in * out * 4 + w + codes}}});
    most.emplace_back("Hessians", sums(widths));
    return most;
  }

  MemoryPlan::Needs quantizing(bool activations_on_host) const {
    MemoryPlan::Needs needs = {{"block", block_bytes()}, {"embedding", embedding_bytes()}};
    if (!activations_on_host) needs.emplace_back("activations", stream_bytes(false));
    if (!task_.quantizes) return needs;
    std::vector<MemoryPlan::Needs> phases = {collecting()};
    std::vector<int64_t> widths;  // from the last stage on: a stage's sums go when it is solved
    for (auto stage = model_.stages.rbegin(); stage != model_.stages.rend(); ++stage) {
      if (task_.true_sequential) widths.clear();
      widths.push_back(stage->in);
      for (const int64_t out : stage->outs) phases.push_back(solving(stage->in, out, widths));
    }
    if (task_.quantizes_head) {
      phases.push_back(solving(hidden(), model_.vocabulary, {hidden()}));
      phases.back().emplace_back("head", model_.vocabulary * hidden() * model_.element_bytes);
    }
    for (auto& [what, bytes] : largest(phases)) needs.emplace_back(what, bytes);
    return needs;
  }

  // A table whose rows are asked for is on the device where no file has it.
  int64_t embedding_bytes() const {
    if (task_.on_gpu && model_.mapped) return 0;
    return (model_.end_elements - model_.head_elements) * model_.element_bytes;
  }

  // Pages of the ends, and of the tensor that is being copied.
  int64_t mapped_bytes() const {
    int64_t largest = 0;
    for (const int64_t count : model_.block_tensors) largest = std::max(largest, count);
    return (model_.end_elements + largest) * model_.element_bytes;
  }

  MemoryPlan::Needs evaluating() const {
    return {{"block", block_bytes()},
            {"embedding and head", model_.end_elements * model_.element_bytes},
            {"evaluation windows", task_.evaluation_tokens * hidden() * model_.element_bytes},
            {"pass over a block", pass_bytes(task_.evaluation_tokens_per_pass)},
            {"logits", logits_bytes()}};
  }

  // Of one window at a time, however many there are.
  int64_t logits_bytes() const {
    const int64_t most = task_.on_gpu ? kLogitsOnGpu : kLogitsOnCpu;
    return std::min(most, kLogitCopies * task_.seqlen * model_.vocabulary * 4);
  }

  const ModelSizes& model_;
  const MemoryTask& task_;
  int64_t widest_in_ = 0;
  int64_t largest_linear_ = 0;
  int64_t finished_block_ = 0;  // its codes
  int64_t written_block_ = 0;   // the same as they are written
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
