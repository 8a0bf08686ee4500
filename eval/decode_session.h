// A model that writes: the prompt in chunks, then one token after another, all of it on a cache of
// keys and values.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "models/causal_lm.h"
#include "models/kv_cache.h"

namespace gptqb {

struct DecodeOptions {
  int64_t batch = 1;      // sequences that are written together, of one length at any time
  int64_t positions = 0;  // most tokens of a sequence, prompt included
  // Tokens of a prompt that run through the model together: more of them take more memory, fewer
  // read the weights more often.
  int64_t chunk = 256;
};

class DecodeSession {
 public:
  // Brings all weights to the model's device, where they stay, and takes the cache's memory.
  // `model` must outlive this object. Throws Error if the model has fewer positions.
  DecodeSession(CausalLm& model, const DecodeOptions& options);

  // Logits [batch, vocab] behind the last of `ids` i64 [batch, count], which follow the tokens seen
  // so far; in the model's dtype on its device. Ids on the host are checked. Throws Error: an id
  // outside the vocabulary, more tokens than positions.
  at::Tensor prefill(const at::Tensor& ids);
  // The same for one more token of each sequence, `ids` i64 [batch, 1]. Given on the device,
  // nothing waits for it.
  at::Tensor step(const at::Tensor& ids);

  // Forgets all tokens; keeps weights and memory.
  void clear() { cache_.clear(); }
  const KvCache& cache() const { return cache_; }

 private:
  at::Tensor last_logits(const at::Tensor& hidden);

  CausalLm& model_;
  int64_t chunk_;
  KvCache cache_;
};

}  // namespace gptqb
