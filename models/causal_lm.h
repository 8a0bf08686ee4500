// A decoder-only language model, run block by block so that a model larger than the device runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "methods/block_model.h"
#include "models/kv_cache.h"
#include "models/synthetic_model.h"
#include "models/weight_source.h"

namespace gptqb {

// A BlockModel with its two ends: embeddings in, logits out.
class CausalLm : public BlockModel {
 public:
  virtual int64_t vocab_size() const = 0;
  // Longest sequence the model has positions for.
  virtual int64_t max_positions() const = 0;
  virtual std::string architecture() const = 0;
  // Keys and values that one token adds to a cache, in all blocks together.
  virtual int64_t cached_per_token() const { return 0; }
  // The cache that `batch` sequences of up to `positions` tokens need, in the model's dtype. Throws
  // Error if the model has fewer positions.
  virtual CacheShape cache_shape(int64_t batch, int64_t positions) const;
  // Hidden states [batch, count, hidden] that leave the last block for `ids` i64 [batch, count],
  // which follow what `cache` holds; the cache then holds them too. Nothing waits for the device if
  // `ids` are on it and blocks are held; ids on the host are checked. Throws Error as embed, or if
  // the cache is full.
  virtual at::Tensor run_cached(const at::Tensor& ids, KvCache& cache);
  // Whether run_cached, once run on one token a sequence, may be recorded (methods/graph_replay.h):
  // it then launches the same kernels on the same memory for as long as cache.reach() stays.
  virtual bool records_steps() const { return false; }
  // `ids` i64 [batch, count] on the device; ids on the host are checked first, as by embed.
  virtual at::Tensor placed_ids(const at::Tensor& ids) const { return ids.to(device()); }
  // From now on all blocks stay on the device, and load_block only says which one is meant. On a
  // GPU linears that read the same input become one product.
  virtual void hold_blocks() {}
  // Ids the config names; empty if it names none.
  virtual std::optional<int64_t> bos_token_id() const = 0;
  virtual std::optional<int64_t> eos_token_id() const = 0;

  // Logits [.., vocab] in the model's dtype of hidden states [.., hidden] that left the last block:
  // final norm and output projections included.
  virtual at::Tensor logits(const at::Tensor& hidden) = 0;

  // What a reader of results should know of how the forward pass rounds, as name and choice; empty:
  // there is nothing to choose.
  virtual std::map<std::string, std::string> forward_policies() const { return {}; }

  // Identity of the weights: SHA-256 over each safetensors file's header, size and sampled pages,
  // and config.json.
  virtual std::string fingerprint() const = 0;

  // For writing the model: names of its tensors as transformers has them (a tied head left out),
  // and each on the host in the model's dtype, as the model computes with it; of a linear that was
  // replaced, and of a replaced end, the one that was loaded.
  virtual std::vector<std::string> tensor_names() const = 0;
  virtual at::Tensor tensor(const std::string& name) = 0;

  // Of a packed checkpoint: what of it is packed. Else 0.
  virtual PackedShare packed_share() const { return {}; }
  // What a reader of results must know of how the checkpoint was read.
  virtual std::vector<std::string> notes() const { return {}; }
  // Products of packed weights so far, by the kernel that ran them.
  virtual std::map<std::string, int64_t> kernels_run() const { return {}; }
};

struct ModelOptions {
  std::string dtype = "auto";  // float16, bfloat16, float32; auto: the checkpoint's
  at::Device device = at::kCPU;
  bool read_ahead = true;  // the next block is read while the loaded one is computed
  // gptq, gptq_v2, compressed-tensors: how a packed folder is read against its own label; auto: as
  // packed_linears.h says.
  std::string checkpoint_format = "auto";
  // packed: linears of a packed folder are computed by kernels from their codes; dense, auto: they
  // are dequantized.
  std::string backend = "auto";
  // Every step of a block rounds as transformers does, where a fused kernel would not (BLOOM's
  // attention on a GPU); published numbers depend on it.
  bool reference_forward = false;
};

// Opens a Hugging Face folder (config.json, one or several safetensors). Weights are mapped and
// brought to the device block by block; what becomes of packed ones, `backend` says. Throws Error
// naming file, tensor and key for everything that is missing, malformed, of the wrong shape or
// dtype, or that this program does not compute exactly.
std::unique_ptr<CausalLm> open_model(const std::filesystem::path& folder,
                                     const ModelOptions& options);

// A model of weights made from a seed (synthetic_weights.h), for measuring time and memory. Throws
// Error as SyntheticModel::config.
std::unique_ptr<CausalLm> open_synthetic(const SyntheticModel& model, const ModelOptions& options);

}  // namespace gptqb
