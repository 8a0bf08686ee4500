// Keys and values of the tokens a model has seen, so that the next token costs one row of work.
//
// Memory is taken once. Attention reads the first reach() positions, a multiple of kReachStep, and
// a mask on the device leaves out those that hold nothing yet; where new tokens stand, the device
// counts for itself. So a step is the same work on the same memory at any length but every
// kReachStep tokens, and one that was recorded (a CUDA graph) serves that many, while a short text
// in a large cache costs its own length, also on a CPU, and not the cache's. The host counts along
// and never asks the device.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>

namespace gptqb {

struct CacheShape {
  int64_t blocks = 0;
  int64_t batch = 0;      // sequences, all of one length at any time
  int64_t kv_heads = 0;   // heads of keys and of values
  int64_t positions = 0;  // most tokens a sequence may get
  int64_t head_dim = 0;

  // Of keys and values of all blocks, positions rounded up to kReachStep.
  int64_t elements() const;
};

class KvCache {
 public:
  static constexpr int64_t kReachStep = 256;

  // Empty, in `dtype` on `device`.
  KvCache(const CacheShape& shape, at::ScalarType dtype, at::Device device);

  const CacheShape& shape() const { return shape_; }
  // Tokens of each sequence, those that are being computed included.
  int64_t length() const { return length_; }
  int64_t bytes() const { return static_cast<int64_t>(memory_.nbytes()); }
  // shape().positions rounded up to kReachStep: the largest reach().
  int64_t allocated_positions() const { return memory_.size(4); }
  // Forgets all tokens; keeps the memory.
  void clear();
  // Forgets the last `count` tokens.
  void take_back(int64_t count);
  // Counts on the host alone what a recorded extend() (methods/graph_replay.h) does on the device
  // when it is replayed: `count` more tokens, or fewer for one that was recorded and not run.
  void count_replayed(int64_t count) { length_ += count; }

  // Makes room for `count` more tokens a sequence, which the calls below are then about. Throws
  // Error if that is more than shape().positions.
  void extend(int64_t count);
  // i64 [count] on the device: where the new tokens stand in their sequences.
  const at::Tensor& positions() const { return positions_; }
  // Positions that attention reads: at least length().
  int64_t reach() const { return reach_of(length_); }
  static int64_t reach_of(int64_t length);
  // [count, reach()] in the cache's dtype, to be added to scores: 0 where a new token may look,
  // -inf at positions that lie ahead of it or hold nothing.
  const at::Tensor& mask();

  // Keys and values [batch, kv_heads, count, head_dim] of the new tokens in `block`.
  void put(int64_t block, const at::Tensor& keys, const at::Tensor& values);
  // [batch, kv_heads, reach(), head_dim], views.
  at::Tensor keys(int64_t block) const { return part(0, block); }
  at::Tensor values(int64_t block) const { return part(1, block); }
  // [batch, kv_heads, allocated_positions(), head_dim], views, contiguous.
  at::Tensor all_keys(int64_t block) const { return memory_[0][block]; }
  at::Tensor all_values(int64_t block) const { return memory_[1][block]; }
  // So many bytes on the device for kernels that read the cache, one at a time: zero at first.
  void* scratch(int64_t bytes);

 private:
  at::Tensor part(int64_t which, int64_t block) const;

  CacheShape shape_;
  int64_t length_ = 0;
  at::Tensor memory_;      // [2, blocks, batch, kv_heads, positions rounded up, head_dim]
  at::Tensor everywhere_;  // i64 [positions rounded up]: 0, 1, ..
  at::Tensor next_;        // i64 [1] on the device: length()
  at::Tensor positions_;
  at::Tensor mask_;  // undefined until it is asked for
  at::Tensor scratch_;
};

// Causal attention of new tokens over `block` of the cache, which takes their keys and values
// first. `queries` [batch, heads, count, head_dim], heads a multiple of the cache's; `keys` and
// `values` [batch, kv_heads, count, head_dim]. Scores are multiplied by `scale`; none: 1 /
// sqrt(head_dim). Result [batch, count, heads * head_dim].
at::Tensor cached_attention(KvCache& cache, int64_t block, const at::Tensor& queries,
                            const at::Tensor& keys, const at::Tensor& values,
                            std::optional<double> scale);

}  // namespace gptqb
