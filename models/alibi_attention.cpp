#include "models/alibi_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/alibi_columns.h"
#include "models/forward_ops.h"

namespace gptqb {
namespace {

// Chunks of a sequence's queries: with four, 5/8 of all scores are computed, of which causal
// attention needs half; more of them are smaller products.
constexpr int64_t kChunks = 4;
constexpr int64_t kFewestQueries = 128;
// Chunks end where tensor cores and the softmax can read whole vectors.
constexpr int64_t kQueryStep = 64;

double score_scale(int64_t head_dim) { return 1.0 / std::sqrt(static_cast<double>(head_dim)); }

int64_t queries_at_once(int64_t heads, int64_t seqlen) {
  const int64_t wanted = std::max(kFewestQueries, (seqlen + kChunks - 1) / kChunks);
  const int64_t steps = (wanted + kQueryStep - 1) / kQueryStep;
  const int64_t held = AlibiAttention::kScoresAtOnce / (heads * seqlen * kQueryStep);
  return kQueryStep * std::max<int64_t>(1, std::min(steps, held));
}

}  // namespace

at::Tensor AlibiAttention::mix(const at::Tensor& fused) {
  return fused.is_cuda() ? mix_queries(fused, queries_at_once(heads_, fused.size(1)))
                         : mix_heads(fused);
}

at::Tensor AlibiAttention::mix_heads(const at::Tensor& fused) {
  const int64_t sequences = fused.size(0);
  const int64_t seqlen = fused.size(1);
  const at::Tensor parts = parts_of(fused);
  const int64_t head_dim = parts.size(4);
  prepare(seqlen);
  if (!ahead_.defined() || ahead_.size(0) != seqlen) {
    const at::Tensor keys = at::arange(seqlen, at::TensorOptions(at::kLong).device(device_));
    ahead_ = keys.unsqueeze(0) > keys.unsqueeze(1);
  }
  at::Tensor mixed = at::empty({sequences, seqlen, heads_, head_dim}, fused.options());
  const int64_t step =
      std::clamp<int64_t>(kScoresAtOnce / (sequences * seqlen * seqlen), 1, heads_);
  for (int64_t begin = 0; begin < heads_; begin += step) {
    const int64_t count = std::min(step, heads_ - begin);
    const auto part = [&](int64_t which) {
      return parts[which].narrow(1, begin, count).reshape({sequences * count, seqlen, head_dim});
    };
    const at::Tensor bias = bias_.narrow(0, begin, count).repeat({sequences, 1, 1});
    const at::Tensor scores = at::baddbmm(bias, part(0), part(1).transpose(1, 2), /*beta=*/1,
                                          /*alpha=*/score_scale(head_dim))
                                  .masked_fill_(ahead_, -std::numeric_limits<double>::infinity());
    const at::Tensor shares = at::softmax(scores, -1, at::kFloat).to(fused.scalar_type());
    mixed.narrow(2, begin, count)
        .copy_(at::bmm(shares, part(2)).view({sequences, count, seqlen, head_dim}).transpose(1, 2));
  }
  return mixed.view({sequences, seqlen, heads_ * head_dim});
}

at::Tensor AlibiAttention::mix_queries(const at::Tensor& fused, int64_t queries) {
  const int64_t sequences = fused.size(0);
  const int64_t seqlen = fused.size(1);
  const at::Tensor parts = parts_of(fused);
  const int64_t head_dim = parts.size(4);
  prepare(seqlen);
  const at::Tensor mixed = at::empty({sequences, seqlen, heads_, head_dim}, fused.options());
  const at::Tensor held = at::empty({heads_ * std::min(queries, seqlen) * seqlen}, fused.options());
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
    const at::Tensor q = parts[0][sequence];
    const at::Tensor k = parts[1][sequence].transpose(1, 2);
    const at::Tensor v = parts[2][sequence];
    const at::Tensor out = mixed[sequence].transpose(0, 1);  // [heads, seqlen, head_dim]
    for (int64_t begin = 0; begin < seqlen; begin += queries) {
      const int64_t count = std::min(queries, seqlen - begin);
      const int64_t keys = begin + count;
      at::Tensor scores = held.narrow(0, 0, heads_ * count * keys).view({heads_, count, keys});
      at::baddbmm_out(scores, bias_.narrow(2, 0, keys), q.narrow(1, begin, count),
                      k.narrow(2, 0, keys), /*beta=*/1, /*alpha=*/score_scale(head_dim));
      causal_softmax(scores, begin);
      at::Tensor mixed_here = out.narrow(1, begin, count);
      at::bmm_out(mixed_here, scores, v.narrow(1, 0, keys));
    }
  }
  return mixed.view({sequences, seqlen, heads_ * head_dim});
}

at::Tensor AlibiAttention::mix_cached(const at::Tensor& fused, KvCache& cache, int64_t block,
                                      at::ScalarType scores) {
  const int64_t sequences = fused.size(0);
  const int64_t count = fused.size(1);
  const at::Tensor parts = parts_of(fused);
  const int64_t head_dim = parts.size(4);
  const int64_t reach = cache.reach();
  cache.put(block, parts[1], parts[2]);
  const auto matrices = [&](const at::Tensor& x) { return x.flatten(0, 1).to(scores); };
  if (!cached_bias_.defined() || cached_bias_.size(2) < reach ||
      cached_bias_.scalar_type() != scores)
    cached_bias_ = bias_of(cache.allocated_positions(), scores);
  const at::Tensor bias = cached_bias_.narrow(2, 0, reach).repeat({sequences, 1, 1});
  const at::Tensor weighed =
      at::baddbmm(bias, matrices(parts[0]), matrices(cache.keys(block)).transpose(1, 2),
                  /*beta=*/1, /*alpha=*/score_scale(head_dim))
          .add_(cache.mask());
  const at::Tensor shares = at::softmax(weighed, -1, at::kFloat).to(fused.scalar_type());
  return at::bmm(shares, cache.values(block).flatten(0, 1))
      .view({sequences, heads_, count, head_dim})
      .transpose(1, 2)
      .reshape({sequences, count, heads_ * head_dim});
}

// Made once for a length. The bias is slope x position of the key, not the distance to the query:
// softmax makes them equal, rounding to half precision does not, and BLOOM was trained and
// published with this form.
void AlibiAttention::prepare(int64_t seqlen) {
  if (bias_.defined() && bias_.size(2) == seqlen) return;
  bias_ = bias_of(seqlen, dtype_);
}

at::Tensor AlibiAttention::bias_of(int64_t positions, at::ScalarType dtype) const {
  const at::Tensor keys = at::arange(positions, at::TensorOptions(at::kLong).device(device_));
  return (alibi_slopes(heads_, device_).view({-1, 1, 1}) * keys).to(dtype);
}

at::Tensor AlibiAttention::parts_of(const at::Tensor& fused) const {
  const int64_t head_dim = fused.size(2) / (3 * heads_);
  return fused.view({fused.size(0), fused.size(1), heads_, 3, head_dim}).permute({3, 0, 2, 1, 4});
}

}  // namespace gptqb
