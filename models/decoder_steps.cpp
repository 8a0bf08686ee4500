// A decoder that writes: blocks that stay on the device, their linears joined, and one pass over
// new tokens on a cache.
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "models/decode_ops.h"
#include "models/decoder.h"

namespace gptqb {
namespace {

// Parts of `rows` rows each of y [.., sum of rows]; side by side in memory, but of one token a
// sequence, which the kernels behind read as they lie.
std::vector<at::Tensor> parts_of(const at::Tensor& y, const std::vector<int64_t>& rows) {
  std::vector<at::Tensor> parts;
  int64_t first = 0;
  for (const int64_t count : rows) {
    const at::Tensor part = y.narrow(-1, first, count);
    parts.push_back(y.dim() == 3 && y.size(1) == 1 ? part : part.contiguous());
    first += count;
  }
  return parts;
}

}  // namespace

void Decoder::hold_blocks() {
  if (!held_.empty()) return;
  release_block();
  std::vector<HeldBlock> blocks;
  for (int64_t block = 0; block < block_count(); ++block) {
    load_block(block);
    if (device_.is_cuda()) join_linears();
    blocks.push_back(take_loaded());
  }
  ahead_.drop();
  held_ = std::move(blocks);
}

// What was moved from is left as it may be: emptied, and no block is loaded.
Decoder::HeldBlock Decoder::take_loaded() {
  HeldBlock block{std::move(block_), std::move(block_int8_), std::move(block_packed_),
                  std::move(block_joined_)};
  block_.clear();
  block_int8_.clear();
  block_packed_.clear();
  block_joined_.clear();
  loaded_block_ = -1;
  return block;
}

void Decoder::put_back() {
  if (loaded_block_ < 0) return;
  const int64_t block = loaded_block_;
  held_[block] = take_loaded();
}

void Decoder::take_held(int64_t block) {
  block_ = std::move(held_[block].tensors);
  block_int8_ = std::move(held_[block].int8);
  block_packed_ = std::move(held_[block].packed);
  block_joined_ = std::move(held_[block].joined);
  loaded_block_ = block;
}

// Either all linears of a stage have biases or none has.
void Decoder::join_linears() {
  for (size_t stage = 0; stage < facts_.stages.size(); ++stage) {
    const std::vector<std::string>& linears = facts_.stages[stage].linears;
    if (linears.size() < 2) continue;
    JoinedLinears joined;
    std::vector<at::Tensor> weights, biases;
    std::vector<const PackedLinear*> packed;
    for (const std::string& linear : linears) {
      joined.rows.push_back(
          weights_->shape(block_name(loaded_block_) + "." + linear + ".weight")[0]);
      if (const at::Tensor& bias = block_tensor(linear + ".bias"); bias.defined())
        biases.push_back(bias);
      if (const auto found = block_packed_.find(linear); found != block_packed_.end())
        packed.push_back(&found->second);
      else if (!block_int8_.contains(linear))
        weights.push_back(block_tensor(linear + ".weight"));
    }
    if (!biases.empty() && biases.size() != linears.size()) continue;
    if (!biases.empty()) joined.bias = at::cat(biases);
    if (packed.size() == linears.size()) {
      joined.packed = PackedLinear::stacked(products_->layout(), packed);
      if (!joined.packed) continue;
      for (const std::string& linear : linears) block_packed_.erase(linear);
    } else if (weights.size() == linears.size()) {
      joined.weight = at::cat(weights);
      int64_t first = 0;
      for (size_t i = 0; i < linears.size(); ++i) {
        block_[linears[i] + ".weight"] = joined.weight.narrow(0, first, joined.rows[i]);
        first += joined.rows[i];
      }
    } else {
      continue;
    }
    block_joined_.emplace(stage, std::move(joined));
  }
}

std::pair<size_t, size_t> Decoder::place_of(const std::string& linear) const {
  for (size_t stage = 0; stage < facts_.stages.size(); ++stage) {
    const auto& linears = facts_.stages[stage].linears;
    const auto found = std::find(linears.begin(), linears.end(), linear);
    if (found != linears.end()) return {stage, static_cast<size_t>(found - linears.begin())};
  }
  throw Error(block_name(loaded_block_), "expected the name of a linear, got '" + linear + "'");
}

void Decoder::take_apart(const std::string& linear) {
  for (size_t stage = 0; stage < facts_.stages.size(); ++stage) {
    const std::vector<std::string>& linears = facts_.stages[stage].linears;
    const auto joined = block_joined_.find(stage);
    if (joined == block_joined_.end() || std::count(linears.begin(), linears.end(), linear) == 0)
      continue;
    const std::string prefix = block_name(loaded_block_) + ".";
    if (joined->second.packed)
      for (const std::string& name : linears)
        block_packed_.emplace(name, packed_linear(prefix + name + ".weight").to(device_));
    block_joined_.erase(joined);
  }
}

at::Tensor Decoder::joined_part(const std::string& linear, const at::Tensor& x) const {
  const auto [stage, place] = place_of(linear);
  return stage_linears(stage, x)[place];
}

std::vector<at::Tensor> Decoder::stage_linears(size_t stage, const at::Tensor& x) const {
  const auto joined = block_joined_.find(stage);
  if (joined != block_joined_.end()) {
    const JoinedLinears& one = joined->second;
    return parts_of(one.packed ? products_->product(*one.packed, x, one.bias)
                               : at::linear(x, one.weight, one.bias),
                    one.rows);
  }
  std::vector<at::Tensor> outputs;
  for (const std::string& name : facts_.stages[stage].linears) outputs.push_back(linear(name, x));
  return outputs;
}

void Decoder::add(at::Tensor& residual, at::Tensor delta) {
  if (stepping_)
    pending_ = std::move(delta);
  else
    residual = delta.add_(residual);
}

at::Tensor Decoder::normed(at::Tensor& residual, const Norm& norm) {
  if (!stepping_) return apply_norm(residual, norm);
  return add_norm(residual, std::exchange(pending_, at::Tensor()), norm);
}

CacheShape Decoder::cache_shape(int64_t batch, int64_t positions) const {
  if (positions > max_positions())
    throw Error("cache of keys and values", "expected at most " + std::to_string(max_positions()) +
                                                " positions, which the model has, got " +
                                                std::to_string(positions));
  return {.blocks = block_count(),
          .batch = batch,
          .kv_heads = facts_.kv_heads,
          .positions = positions,
          .head_dim = facts_.head_dim};
}

bool Decoder::records_steps() const {
  return device_.is_cuda() && !held_.empty() &&
         std::all_of(held_.begin(), held_.end(),
                     [](const HeldBlock& block) { return block.int8.empty(); });
}

at::Tensor Decoder::placed_ids(const at::Tensor& ids) const {
  return ids.is_cpu() ? checked_ids(ids).to(device_) : ids;
}

at::Tensor Decoder::run_cached(const at::Tensor& ids, KvCache& cache) {
  const at::Tensor words = placed_ids(ids);
  cache.extend(words.size(1));
  struct UnderWay {
    Decoder& of;
    ~UnderWay() {
      of.cache_ = nullptr;
      of.stepping_ = false;
      of.pending_ = at::Tensor();
    }
  } under_way{*this};
  cache_ = &cache;
  at::Tensor hidden = embed_at(words, cache.positions());
  stepping_ = words.size(1) == 1 && hidden.is_contiguous() &&
              add_norm_takes(device_, dtype_, hidden.size(-1));
  for (int64_t block = 0; block < block_count(); ++block) {
    load_block(block);
    hidden = run_block(hidden);
  }
  return pending_.defined() ? pending_.add_(hidden) : hidden;
}

}  // namespace gptqb
