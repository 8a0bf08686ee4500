// What a cell needs and does not find.
#include <map>

#include "common/add_once.h"
#include "common/error.h"
#include "datasets/own_source.h"
#include "datasets/text_source.h"
#include "datasets/tokenizer.h"
#include "runner/input_cache.h"
#include "runner/plan.h"

namespace gptqb {

namespace {

namespace fs = std::filesystem;

// The repository on the Hugging Face hub of the model that is usually kept under `name`; "" if none
// is known.
std::string hub_repository(const std::string& name) {
  if (name == "bloom-176b") return "bigscience/bloom";
  if (name.starts_with("bloom-")) return "bigscience/" + name;
  if (name.starts_with("opt-")) return "facebook/" + name;
  if (name.starts_with("llama-2-")) return "meta-llama/L" + name.substr(1) + "-hf";
  if (name.starts_with("llama-") && !name.starts_with("llama-3-")) return "huggyllama/" + name;
  return "";
}

std::string how_to_get(const std::string& name) {
  if (name == "smollm2-135m") return "scripts/get_smollm2 makes it";
  if (name == "opt-175b")
    return "Meta hands its weights out on request (facebookresearch/metaseq, projects/OPT); "
           "convert them to that layout";
  const std::string repository = hub_repository(name);
  return "Put config.json, the safetensors and the tokenizer files of " +
         (repository.empty() ? "that model" : repository) +
         " there (by `huggingface-cli download`, or a copy)";
}

void check_model(const Cell& cell, const fs::path& base, std::vector<std::string>& sentences) {
  const ModelSpec& model = cell.model();
  if (model.path.empty()) return;
  const fs::path folder = fs::absolute(base / model.path).lexically_normal();
  std::error_code ignored;
  if (fs::exists(folder / "config.json", ignored)) {
    if (InputCache::needs_tokenizer(cell) && !has_tokenizer(folder))
      add_once("model: expected tokenizer.json, tokenizer.model, or vocab.json and merges.txt in " +
                   folder.string() +
                   ", got none of them. Copy the tokenizer's files beside the weights",
               sentences);
    return;
  }
  const std::string name =
      folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string();
  std::string sentence = "model: expected the Hugging Face folder of " + name + " at " +
                         folder.string() + ", got " +
                         (fs::exists(folder, ignored) ? "a folder without config.json" : "none") +
                         ". " + how_to_get(name);
  if (model.path_unexpanded != model.path)
    sentence += ", or set the variable: model.path is " + model.path_unexpanded;
  add_once(sentence, sentences);
}

// Reading C4's shards takes minutes; that some spelling of the shard is there must do.
bool is_large(const DatasetSpec& dataset) {
  return dataset.name == "c4" || dataset.name == "c4-new";
}

void check_dataset(const DatasetSpec& dataset, Purpose purpose, const fs::path& data_root,
                   const fs::path& base, std::vector<std::string>& sentences) {
  try {
    if (is_large(dataset) && !data_root.empty()) {
      const std::string split = !dataset.split.empty()             ? dataset.split
                                : purpose == Purpose::kCalibration ? "train"
                                                                   : "validation";
      const std::string file = split == "train" ? "c4/en/c4-train.00000-of-01024.json"
                                                : "c4/en/c4-validation.00000-of-00008.json";
      if (find_spelling(data_root / file)) return;
    } else if (!dataset.source.empty()) {
      check_own_source(dataset, base);
      return;
    }
    load_corpus(dataset, purpose, data_root, base);
  } catch (const std::exception& fault) {
    add_once(std::string("data: ") + fault.what(), sentences);
  }
}

}  // namespace

std::vector<std::string> missing_inputs(const Cell& cell, const fs::path& data_root,
                                        const fs::path& base) {
  std::vector<std::string> sentences;
  check_model(cell, base, sentences);
  if (cell.needs_calibration())
    for (const DatasetShare& part : cell.calibration().datasets)
      check_dataset(part.dataset, Purpose::kCalibration, data_root, base, sentences);
  for (const EvaluatorSpec& evaluator : cell.evaluators())
    for (const DatasetSpec& dataset : evaluator.datasets)
      check_dataset(dataset, Purpose::kEvaluation, data_root, base, sentences);
  return sentences;
}

std::vector<std::string> look_for_inputs(Plan& plan, const fs::path& data_root,
                                         const fs::path& base) {
  std::vector<std::string> sentences;
  std::map<std::string, std::vector<std::string>> known;  // cells share most of their inputs
  for (PlannedCell& planned : plan.cells) {
    if (!planned.skip_reason.empty()) continue;
    std::string inputs;
    for (const char* key : {"model.path", "calibration.dataset", "evaluate.perplexity.datasets",
                            "evaluate.divergence.datasets", "evaluate.decode_latency.dataset"})
      inputs += planned.cell.setting(key) + "\n";
    if (!known.contains(inputs)) known[inputs] = missing_inputs(planned.cell, data_root, base);
    planned.missing = known[inputs];
    for (const std::string& sentence : planned.missing) add_once(sentence, sentences);
  }
  return sentences;
}

}  // namespace gptqb
