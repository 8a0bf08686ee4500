// Causal attention with linear biases for positions (ALiBi, Press et al. 2022), as transformers
// computes it for BLOOM.
//
// Scores are rounded to the model's dtype with the bias in them: steep heads reach a thousand,
// where float16 has steps of 1/2 to 1. A fused attention (models/fused_alibi.h) keeps them in f32
// and puts out something else (by 5 % in float16 and 32 % in bfloat16 for 8 heads at 2048 tokens).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "models/kv_cache.h"

namespace gptqb {

class AlibiAttention {
 public:
  // Scores held at once, whatever the number of heads, but for the least chunk there is.
  static constexpr int64_t kScoresAtOnce = int64_t{1} << 26;

  AlibiAttention(int64_t heads, at::ScalarType dtype, at::Device device)
      : heads_(heads), dtype_(dtype), device_(device) {}

  // `fused` [sequences, seqlen, 3 hidden], by head q, k, v -> [sequences, seqlen, hidden]. On a GPU
  // in chunks of queries, elsewhere of heads.
  at::Tensor mix(const at::Tensor& fused);

  // All queries of one or several heads at once.
  at::Tensor mix_heads(const at::Tensor& fused);

  // So many queries of all heads of a sequence at once: keys ahead of the last of them are not
  // computed, queries, keys and values are not copied. The same roundings; sums in another order.
  at::Tensor mix_queries(const at::Tensor& fused, int64_t queries);

  // The same for tokens behind those of a cache, whose keys and values `block` of the cache takes
  // first. `scores`: the model's dtype, or float32 to round as a fused attention does.
  at::Tensor mix_cached(const at::Tensor& fused, KvCache& cache, int64_t block,
                        at::ScalarType scores);

 private:
  void prepare(int64_t seqlen);
  at::Tensor bias_of(int64_t positions, at::ScalarType dtype) const;
  // q, k, v [3, sequences, heads, seqlen, head_dim], a view.
  at::Tensor parts_of(const at::Tensor& fused) const;

  int64_t heads_;
  at::ScalarType dtype_;
  at::Device device_;
  at::Tensor bias_;         // [heads, 1, seqlen] in the model's dtype
  at::Tensor cached_bias_;  // [heads, 1, positions of a cache] in the dtype of its scores
  at::Tensor ahead_;        // bool [seqlen, seqlen]: keys that lie ahead of a query
};

}  // namespace gptqb
