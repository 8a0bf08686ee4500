#include "runner/decode_cell.h"

#include "common/error.h"
#include "models/published_shapes.h"
#include "runner/generation_room.h"
#include "runner/save_checks.h"
#include "runner/save_settings.h"

namespace gptqb {
namespace {

// Of the whole model, where the cell asks for some of its blocks; else 0.
int64_t blocks_of_whole(const SyntheticModel& model) {
  if (model.like.empty() || model.layers == 0) return 0;
  const nlohmann::json whole = published_config(model.like);
  const int64_t blocks = whole.value("num_hidden_layers", whole.value("n_layer", int64_t{0}));
  return model.layers < blocks ? blocks : 0;
}

}  // namespace

const EvaluatorSpec* decode_evaluator(const Cell& cell) {
  for (const EvaluatorSpec& spec : cell.evaluators())
    if (spec.name == "decode_latency") return &spec;
  return nullptr;
}

bool times_its_codes(const Cell& cell) {
  return !cell.measures_kernels() && !cell.dense() && cell.model().backend != "dense" &&
         decode_evaluator(cell) != nullptr;
}

std::string decode_refusal(const Cell& cell) {
  if (!times_its_codes(cell)) return "";
  const std::string reason = save_refusal({}, cell);
  return reason.empty() ? ""
                        : "evaluate.decode_latency times the packed checkpoint of what a cell "
                          "quantizes, which must be one that `save` can write: " +
                              reason + ". With model.backend: dense it times dequantized weights";
}

DecodeTask decode_task(const Cell& cell, const EvaluatorSpec& spec, bool from_codes) {
  DecodeTask task = spec.decode;
  task.from_codes = from_codes;
  task.blocks_of_whole = blocks_of_whole(cell.model().synthetic);
  return task;
}

GenerationMemory decode_memory(const Cell& cell, const CausalLm& model) {
  const DecodeTask& task = decode_evaluator(cell)->decode;
  if (task.positions() > model.max_positions())
    throw Error("evaluate.decode_latency",
                "expected a prompt and generated tokens of at most " +
                    std::to_string(model.max_positions()) +
                    " together, which is what the model has positions for, got " +
                    std::to_string(task.positions()));
  GenerationMemory memory =
      generation_memory(model, {.batch = task.largest_batch(), .positions = task.positions()},
                        cell.model().backend == "packed");
  if (!times_its_codes(cell)) return memory;
  memory.weights = least_checkpoint_bytes(cell, model.sizes());
  // While a block is packed, its codes are there as they were read, too.
  for (const int64_t elements : model.sizes().block_tensors) memory.weights += elements;
  return memory;
}

void require_decode_room(const GenerationMemory& memory, const std::string& device,
                         const MemoryLimits& limits) {
  const at::Device on(device == "cuda" ? "cuda:0" : device);
  std::optional<int64_t> limit = limits.device;
  if (on.is_cpu() && limits.host && (!limit || *limits.host < *limit)) limit = limits.host;
  require_room(memory, on, limit,
               "Use a smaller batch, fewer tokens, fewer bits or fewer blocks, or a larger device");
}

void skip_what_cannot_decode(Plan& plan, const std::map<std::string, GenerationMemory>& memory,
                             const std::string& device) {
  for (PlannedCell& planned : plan.cells) {
    const auto known = memory.find(planned.cell.id());
    if (!planned.skip_reason.empty() || known == memory.end()) continue;
    try {
      require_decode_room(known->second, device, plan.limits);
    } catch (const Error& error) {
      planned.skip_reason = std::string("does not fit: ") + error.what();
    }
  }
}

}  // namespace gptqb
