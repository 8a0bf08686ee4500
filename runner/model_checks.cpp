#include "runner/model_checks.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "common/text.h"
#include "models/causal_lm.h"
#include "runner/decode_cell.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

void add_once(const std::string& sentence, std::vector<std::string>& sentences) {
  if (std::find(sentences.begin(), sentences.end(), sentence) == sentences.end())
    sentences.push_back(sentence);
}

// Whether awq would move scales into something without tensors of its own.
bool moves_into_activations(const CausalLm& model) {
  const std::vector<std::string> names = model.tensor_names();
  const auto moves = model.scale_plan().moves;
  return std::any_of(moves.begin(), moves.end(), [&](const ScaleMove& move) {
    const std::string weight = model.block_name(0) + "." + move.producer + ".weight";
    return std::find(names.begin(), names.end(), weight) == names.end();
  });
}

}  // namespace

std::string packed_refusal(const Cell& cell) {
  if (cell.dense()) return "";
  return "model.path: expected method none for " + cell.model().path_unexpanded +
         ", whose weights are quantized already, got " + cell.method().name +
         ". Use the folder it was made from";
}

std::vector<std::string> linear_names(const BlockModel& model) {
  std::vector<std::string> names;
  for (int64_t block = 0; block < model.block_count(); ++block)
    for (const Stage& stage : model.stages())
      for (const std::string& linear : stage.linears)
        names.push_back(model.block_name(block) + "." + linear);
  return names;
}

ModelChecks check_models(const Plan& plan, const fs::path& base) {
  struct Known {
    std::vector<std::string> linears;  // none: not there, or broken
    ModelSizes sizes;
    bool packed = false;
    bool moves_into_activations = false;  // of awq's scales
  };
  ModelChecks checks;
  std::vector<std::string> faults;
  // By what opens it.
  std::map<std::tuple<std::string, std::string, std::string, std::string, bool>, Known> known;
  for (const PlannedCell& planned : plan.cells) {
    const Cell& cell = planned.cell;
    const SyntheticModel& synthetic = cell.model().synthetic;
    if (!planned.skip_reason.empty() || (cell.model().path.empty() && !synthetic.asked())) continue;
    const fs::path folder = base / cell.model().path;
    const ModelOptions options{.dtype = cell.model().dtype,
                               .checkpoint_format = cell.model().checkpoint_format,
                               .backend = cell.model().backend,
                               .reference_forward = cell.compat().reference_forward};
    const auto [entry, is_new] = known.try_emplace(
        {synthetic.asked() ? synthetic.name() + synthetic.config().dump() : folder.string(),
         options.dtype, options.checkpoint_format, options.backend, options.reference_forward});
    Known& model = entry->second;
    const auto look_at = [&model](const CausalLm& opened) {
      model.linears = linear_names(opened);
      model.sizes = opened.sizes();
      model.packed = opened.packed_share().weights > 0;
      model.moves_into_activations = moves_into_activations(opened);
    };
    std::error_code ignored;
    if (is_new && synthetic.asked()) {
      look_at(*open_synthetic(synthetic, options));
    } else if (is_new && fs::exists(folder / "config.json", ignored)) {
      try {
        look_at(*open_model(folder, options));
      } catch (const std::exception& error) {
        checks.broken.push_back(error.what());
      }
    }
    if (model.linears.empty()) continue;
    checks.sizes[cell.id()] = model.sizes;
    checks.linears[cell.id()] = model.linears;
    if (decode_evaluator(cell)) {
      try {
        const auto opened =
            synthetic.asked() ? open_synthetic(synthetic, options) : open_model(folder, options);
        checks.generation[cell.id()] = decode_memory(cell, *opened);
      } catch (const Error& error) {
        add_once(error.what(), faults);
      }
    }
    if (model.packed) {
      if (const std::string sentence = packed_refusal(cell); !sentence.empty())
        add_once(sentence, faults);
      continue;
    }
    for (const std::string& sentence : cell.unmatched_globs(model.linears))
      add_once(sentence, faults);
    if (plan.save && cell.method().name == "awq" && model.moves_into_activations)
      add_once(std::string("save: ") + kMovedScales, faults);
  }
  if (!faults.empty()) throw Error(plan.file, join(faults, "; "));
  return checks;
}

}  // namespace gptqb
