// A model that writes: the prompt in chunks, then one token after another, all of it on a cache of
// keys and values.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>

#include "methods/graph_replay.h"
#include "models/causal_lm.h"
#include "models/kv_cache.h"

namespace gptqb {

struct DecodeOptions {
  int64_t batch = 1;      // sequences that are written together, of one length at any time
  int64_t positions = 0;  // most tokens of a sequence, prompt included
  // Tokens of a prompt that run through the model together: more of them take more memory, fewer
  // read the weights more often.
  int64_t chunk = 256;
  // Record a step as a CUDA graph and replay it, where the model allows.
  bool graphs = true;
};

class DecodeSession {
 public:
  // Brings all weights to the model's device, where they stay, and takes the cache's memory.
  // `model` must outlive this object, and its weights must not change after the first step. Throws
  // Error if the model has fewer positions.
  DecodeSession(CausalLm& model, const DecodeOptions& options);

  // Logits [batch, vocab] behind the last of `ids` i64 [batch, count], which follow the tokens seen
  // so far; in the model's dtype on its device. Ids on the host are checked. Throws Error: an id
  // outside the vocabulary, more tokens than positions.
  at::Tensor prefill(const at::Tensor& ids);
  // The same for one more token of each sequence, `ids` i64 [batch, 1]. Given on the device,
  // nothing waits for it. The next step may overwrite the result.
  at::Tensor step(const at::Tensor& ids);
  // step(), but what it returns is the id of the largest logit of each sequence: i64 [batch, 1], on
  // the device, to be fed to the next.
  at::Tensor greedy_step(const at::Tensor& ids);

  // Whether steps are replayed as a graph.
  bool graphs() const { return graphs_; }
  // Forgets all tokens; keeps weights and memory.
  void clear() { cache_.clear(); }
  const KvCache& cache() const { return cache_; }

 private:
  struct Step {
    at::Tensor logits;  // [batch, vocab]
    at::Tensor best;    // i64 [batch, 1]
  };
  Step run_step(const at::Tensor& ids);
  Step replayed_step(const at::Tensor& ids);
  at::Tensor last_logits(const at::Tensor& hidden);

  CausalLm& model_;
  int64_t chunk_;
  KvCache cache_;
  bool graphs_;
  // A step is the same work on the same memory for as long as the cache's reach stays.
  std::map<int64_t, GraphReplay> recordings_;  // by reach
};

}  // namespace gptqb
