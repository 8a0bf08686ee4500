#include "runner/input_cache.h"

#include <algorithm>

#include "common/error.h"
#include "datasets/random_ids.h"
#include "models/causal_lm.h"
#include "models/config.h"
#include "runner/hashed_files.h"

namespace gptqb {
namespace {

bool is_random(const DatasetSpec& dataset) {
  return dataset.source.empty() && dataset.name == "random";
}

bool is_ids(const DatasetSpec& dataset) {
  return dataset.source.starts_with("tokens:") || is_random(dataset);
}

// What decides the ids of a text, beside the text: the tokenizer's folder, or the vocabulary that
// ids are drawn from.
std::string model_key(const Cell& cell, const std::filesystem::path& folder) {
  const ModelSpec& model = cell.model();
  return model.synthetic.asked()
             ? model.synthetic.config().dump() + std::to_string(model.synthetic.seed)
             : folder.string();
}

// Everything that decides a dataset's text.
std::string text_key(const DatasetSpec& dataset) {
  return dataset.name + '\n' + dataset.split + '\n' + dataset.source + '\n' + dataset.join + '\n' +
         dataset.field;
}

// Appends the windows of `more` to `all`; provenance of several corpora is joined with " + ".
void append(TokenWindows& all, TokenWindows more) {
  if (all.count == 0) {
    all = std::move(more);
    return;
  }
  all.count += more.count;
  all.ids.insert(all.ids.end(), more.ids.begin(), more.ids.end());
  all.starts.insert(all.starts.end(), more.starts.begin(), more.starts.end());
  all.files.insert(all.files.end(), more.files.begin(), more.files.end());
  all.dataset += " + " + more.dataset;
  all.documents += more.documents;
  all.stream_tokens += more.stream_tokens;
  all.dropped_tokens += more.dropped_tokens;
  all.ids_sha256 += "+" + more.ids_sha256;
}

// Random ids for each one that is drawn, so that held-out windows find room between the others.
constexpr int64_t kRandomRoom = 4;
// Evaluation on random ids, where the number of windows is not said.
constexpr int64_t kRandomWindows = 8;
constexpr int64_t kRandomSeed = 0;

}  // namespace

InputCache::InputCache(std::filesystem::path data_root, std::filesystem::path base)
    : data_root_(std::move(data_root)), base_(std::move(base)) {}

std::unique_ptr<CausalLm> InputCache::open(const Cell& cell, const std::string& device) const {
  return open(cell, device, cell.model().backend);
}

std::unique_ptr<CausalLm> InputCache::open(const Cell& cell, const std::string& device,
                                           const std::string& backend) const {
  const ModelOptions options{.dtype = cell.model().dtype,
                             .device = at::Device(device),
                             .checkpoint_format = cell.model().checkpoint_format,
                             .backend = backend,
                             .reference_forward = cell.compat().reference_forward};
  if (cell.model().synthetic.asked()) return open_synthetic(cell.model().synthetic, options);
  return open_model(model_folder(cell), options);
}

std::filesystem::path InputCache::model_folder(const Cell& cell) const {
  return (base_ / cell.model().path).lexically_normal();
}

const std::vector<SourceFile>& InputCache::model_files(const std::filesystem::path& folder) {
  const auto [entry, is_new] = model_files_.try_emplace(folder.string());
  if (is_new) entry->second = hashed_files(folder);
  return entry->second;
}

const Tokenizer& InputCache::tokenizer(const std::filesystem::path& folder) {
  auto& entry = tokenizers_[folder.string()];
  if (!entry) entry = open_tokenizer(folder);
  return *entry;
}

bool InputCache::needs_tokenizer(const Cell& cell) {
  if (cell.needs_calibration())
    for (const DatasetShare& part : cell.calibration().datasets)
      if (!is_ids(part.dataset)) return true;
  for (const EvaluatorSpec& evaluator : cell.evaluators())
    for (const DatasetSpec& dataset : evaluator.datasets)
      if (!is_ids(dataset)) return true;
  return false;
}

const Tokenizer* InputCache::tokenizer_of(const Cell& cell) {
  return needs_tokenizer(cell) ? &tokenizer(model_folder(cell)) : nullptr;
}

Corpus InputCache::load(const Cell& cell, const DatasetSpec& dataset, Purpose purpose,
                        int64_t tokens, int64_t seed, bool any_model) const {
  if (!is_random(dataset)) return load_corpus(dataset, purpose, data_root_, base_);
  if (!cell.model().synthetic.asked() && !any_model)
    throw Error("dataset random", "expected a model of model.synthetic, got " +
                                      cell.model().path_unexpanded +
                                      ". Random ids say nothing about a real model: use text");
  const int64_t vocabulary =
      cell.model().synthetic.asked()
          ? cell.model().synthetic.config().at("vocab_size").get<int64_t>()
          : ConfigReader(model_folder(cell) / "config.json").size("vocab_size");
  return random_ids(tokens, vocabulary, static_cast<uint64_t>(seed));
}

const CalibrationWindows& InputCache::calibration(const Cell& cell) {
  const CalibrationSpec& spec = cell.calibration();
  std::string key = model_key(cell, model_folder(cell));
  for (const DatasetShare& part : spec.datasets)
    key += '\n' + text_key(part.dataset) + std::to_string(part.share);
  for (int64_t number :
       {spec.samples, spec.seqlen, spec.seed, spec.heldout, static_cast<int64_t>(spec.draw)})
    key += '\n' + std::to_string(number);
  if (const auto found = calibration_.find(key); found != calibration_.end()) return found->second;

  // The remainder of the split goes to the first dataset.
  std::vector<int64_t> samples, heldout;
  int64_t samples_left = spec.samples, heldout_left = spec.heldout;
  for (const DatasetShare& part : spec.datasets) {
    samples.push_back(static_cast<int64_t>(part.share * static_cast<double>(spec.samples)));
    heldout.push_back(static_cast<int64_t>(part.share * static_cast<double>(spec.heldout)));
    samples_left -= samples.back();
    heldout_left -= heldout.back();
  }
  samples.front() += samples_left;
  heldout.front() += heldout_left;

  CalibrationWindows all;
  for (size_t i = 0; i < spec.datasets.size(); ++i) {
    if (samples[i] == 0) continue;
    const Corpus corpus = load(cell, spec.datasets[i].dataset, Purpose::kCalibration,
                               kRandomRoom * (samples[i] + heldout[i]) * spec.seqlen, spec.seed,
                               /*any_model=*/false);
    CalibrationWindows part =
        calibration_windows(corpus, tokenizer_of(cell), samples[i], spec.seqlen,
                            static_cast<uint64_t>(spec.seed), spec.draw, heldout[i]);
    append(all.calibration, std::move(part.calibration));
    if (part.heldout.count > 0) append(all.heldout, std::move(part.heldout));
    if (all.heldout_shortage.empty()) all.heldout_shortage = part.heldout_shortage;
  }
  return calibration_.emplace(key, std::move(all)).first->second;
}

const TokenWindows& InputCache::evaluation(const Cell& cell, const EvaluatorSpec& evaluator,
                                           const DatasetSpec& dataset) {
  std::string key = model_key(cell, model_folder(cell)) + '\n' + text_key(dataset);
  for (int64_t number :
       {evaluator.seqlen, evaluator.max_windows, static_cast<int64_t>(evaluator.bos)})
    key += '\n' + std::to_string(number);
  if (const auto found = evaluation_.find(key); found != evaluation_.end()) return found->second;
  const int64_t windows = evaluator.max_windows > 0 ? evaluator.max_windows : kRandomWindows;
  const Corpus corpus = load(cell, dataset, Purpose::kEvaluation, windows * evaluator.seqlen,
                             kRandomSeed, evaluator.name == "decode_latency");
  return evaluation_
      .emplace(key, evaluation_windows(corpus, tokenizer_of(cell), evaluator.seqlen,
                                       evaluator.max_windows, evaluator.bos))
      .first->second;
}

DenseReference& InputCache::dense(const Cell& cell, const std::string& device) {
  auto& entry = dense_[model_key(cell, model_folder(cell)) + '\n' + cell.model().dtype + '\n' +
                       cell.model().checkpoint_format + '\n' + device +
                       (cell.compat().reference_forward ? "\nreference" : "")];
  if (!entry)
    entry = std::make_unique<DenseReference>(
        [this, cell, device] { return open(cell, device, "dense"); }, kStatesBytes);
  return *entry;
}

}  // namespace gptqb
