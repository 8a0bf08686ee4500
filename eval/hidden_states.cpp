#include "eval/hidden_states.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "common/error.h"
#include "common/hash.h"

namespace gptqb {
namespace {

void check_windows(const CausalLm& model, const TokenWindows& windows) {
  const std::string where = "evaluation on " + windows.dataset;
  if (windows.count < 1 || windows.seqlen < 2)
    throw Error(where, "expected at least one window of two tokens, got " +
                           std::to_string(windows.count) + " of " + std::to_string(windows.seqlen));
  if (windows.seqlen > model.max_positions())
    throw Error(where, "expected seqlen of at most " + std::to_string(model.max_positions()) +
                           ", the positions the model has, got " + std::to_string(windows.seqlen) +
                           ". Set evaluate's seqlen");
  const auto [least, most] = std::minmax_element(windows.ids.begin(), windows.ids.end());
  if (*least < 0 || *most >= model.vocab_size())
    throw Error(where, "expected token ids from 0 to " + std::to_string(model.vocab_size() - 1) +
                           ", the model's vocabulary, got " +
                           std::to_string(*least < 0 ? *least : *most) +
                           ". The tokenizer is another model's");
}

// Everything that decides the states of a model, rounding included.
std::string states_key(const TokenWindows& windows, int64_t batch) {
  Sha256 hash;
  hash.add(windows.ids.data(), windows.ids.size() * sizeof(windows.ids[0]));
  return hash.hex() + " " + std::to_string(windows.seqlen) + " " + std::to_string(batch);
}

}  // namespace

at::Tensor window_ids(const TokenWindows& windows, at::Device device) {
  return at::from_blob(const_cast<int32_t*>(windows.ids.data()), {windows.count, windows.seqlen},
                       at::kInt)
      .to(device, at::kLong);
}

int64_t head_rows(const CausalLm& model, int64_t copies) {
  const int64_t bytes = model.device().is_cuda() ? int64_t{1} << 31 : int64_t{1} << 28;
  return std::max<int64_t>(1, bytes / (copies * 4 * model.vocab_size()));
}

WindowStates final_hidden_states(CausalLm& model, const TokenWindows& windows, int64_t batch,
                                 Progress& progress) {
  c10::InferenceMode inference;
  check_windows(model, windows);
  if (batch <= 0) batch = sequences_per_pass(model.device(), windows.seqlen);
  batch = std::min(batch, windows.count);

  const at::Tensor ids = window_ids(windows, model.device());
  progress.begin("blocks on " + windows.dataset, model.block_count());
  WindowStates states;
  for (int64_t first = 0; first < windows.count; first += batch)
    states.push_back(model.embed(ids.narrow(0, first, std::min(batch, windows.count - first))));
  for (int64_t block = 0; block < model.block_count(); ++block) {
    model.load_block(block);
    for (at::Tensor& chunk : states) {
      throw_if_interrupted();
      chunk = model.run_block(chunk);
    }
    progress.advance();
  }
  model.release_block();
  return states;
}

WindowStates HiddenStateCache::get(CausalLm& model, const TokenWindows& windows, int64_t batch,
                                   Progress& progress) {
  c10::InferenceMode inference;
  const std::string key = states_key(windows, batch);
  if (const auto found = kept_.find(key); found != kept_.end()) return found->second;
  WindowStates states = final_hidden_states(model, windows, batch, progress);
  int64_t bytes = 0;
  for (const at::Tensor& chunk : states) bytes += static_cast<int64_t>(chunk.nbytes());
  if (bytes > free_bytes_) return states;
  free_bytes_ -= bytes;
  WindowStates& kept = kept_[key];
  for (const at::Tensor& chunk : states) kept.push_back(chunk.cpu());
  return states;
}

}  // namespace gptqb
