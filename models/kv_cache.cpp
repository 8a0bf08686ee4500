#include "models/kv_cache.h"

#include <algorithm>
#include <limits>
#include <string>

#include "common/error.h"
#include "common/round_up.h"

namespace gptqb {
int64_t CacheShape::elements() const {
  return 2 * blocks * batch * kv_heads * round_up(positions, KvCache::kReachStep) * head_dim;
}

// Zeros, since positions that hold nothing are multiplied by a share of 0, and 0 x NaN is NaN.
KvCache::KvCache(const CacheShape& shape, at::ScalarType dtype, at::Device device) : shape_(shape) {
  if (shape.batch < 1 || shape.positions < 1)
    throw Error("cache of keys and values", "expected at least one sequence of one position, got " +
                                                std::to_string(shape.batch) + " of " +
                                                std::to_string(shape.positions));
  const int64_t positions = round_up(shape.positions, kReachStep);
  memory_ = at::zeros({2, shape.blocks, shape.batch, shape.kv_heads, positions, shape.head_dim},
                      at::TensorOptions().dtype(dtype).device(device));
  const auto whole_numbers = at::TensorOptions().dtype(at::kLong).device(device);
  everywhere_ = at::arange(positions, whole_numbers);
  next_ = at::zeros({1}, whole_numbers);
}

void KvCache::clear() {
  length_ = 0;
  next_.zero_();
  positions_ = at::Tensor();
  mask_ = at::Tensor();
}

void KvCache::take_back(int64_t count) {
  length_ -= count;
  next_.sub_(count);
  positions_ = at::Tensor();
  mask_ = at::Tensor();
}

int64_t KvCache::reach_of(int64_t length) { return round_up(length, kReachStep); }

void KvCache::extend(int64_t count) {
  if (count < 1 || length_ + count > shape_.positions)
    throw Error("cache of keys and values",
                "expected 1 to " + std::to_string(shape_.positions - length_) +
                    " more tokens (it has " + std::to_string(shape_.positions) +
                    " positions and holds " + std::to_string(length_) + "), got " +
                    std::to_string(count) + ". Make it for more positions");
  positions_ = everywhere_.narrow(0, 0, count) + next_;
  next_.add_(count);
  length_ += count;
  mask_ = at::Tensor();
}

const at::Tensor& KvCache::mask() {
  if (mask_.defined()) return mask_;
  const at::Tensor ahead = everywhere_.narrow(0, 0, reach()).unsqueeze(0) > positions_.unsqueeze(1);
  mask_ = at::zeros(ahead.sizes(), memory_.options())
              .masked_fill_(ahead, -std::numeric_limits<double>::infinity());
  return mask_;
}

void* KvCache::scratch(int64_t bytes) {
  if (!scratch_.defined() || scratch_.numel() < bytes)
    scratch_ = at::zeros({bytes}, memory_.options().dtype(at::kByte));
  return scratch_.mutable_data_ptr();
}

void KvCache::put(int64_t block, const at::Tensor& keys, const at::Tensor& values) {
  memory_[0][block].index_copy_(2, positions_, keys);
  memory_[1][block].index_copy_(2, positions_, values);
}

at::Tensor KvCache::part(int64_t which, int64_t block) const {
  return memory_[which][block].narrow(2, 0, reach());
}

// Query heads that share keys stand beside each other: they become more queries of one head, so
// that keys and values are read once and not copied for each.
at::Tensor cached_attention(KvCache& cache, int64_t block, const at::Tensor& queries,
                            const at::Tensor& keys, const at::Tensor& values,
                            std::optional<double> scale) {
  cache.put(block, keys, values);
  const int64_t batch = queries.size(0);
  const int64_t heads = queries.size(1);
  const int64_t count = queries.size(2);
  const int64_t head_dim = queries.size(3);
  const int64_t kv_heads = cache.shape().kv_heads;
  const int64_t sharing = heads / kv_heads;
  const at::Tensor grouped = queries.reshape({batch, kv_heads, sharing * count, head_dim});
  const at::Tensor mask = sharing == 1 ? cache.mask() : cache.mask().repeat({sharing, 1});
  const at::Tensor mixed = at::scaled_dot_product_attention(
      grouped, cache.keys(block), cache.values(block), mask, 0.0, /*is_causal=*/false, scale);
  return mixed.reshape({batch, heads, count, head_dim})
      .transpose(1, 2)
      .reshape({batch, count, heads * head_dim});
}

}  // namespace gptqb
