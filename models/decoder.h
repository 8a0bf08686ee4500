// What all architectures share: finding, checking, casting and moving weights; one block on the
// device at a time; replaced linears that stay replaced. An architecture adds the arithmetic.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "methods/packed_linear.h"
#include "models/architecture.h"
#include "models/causal_lm.h"
#include "models/decode_ops.h"
#include "models/read_ahead.h"
#include "models/replaced_weights.h"
#include "models/weight_source.h"

namespace gptqb {

// The facts of one model, from its config.
struct DecoderFacts {
  std::string architecture;  // name in architectures.def
  TensorTable table;
  std::string block_prefix;  // "model.layers."
  std::vector<Stage> stages;
  std::string embedding;  // table's name of the word embedding [vocab, width]
  std::string head;       // table's name of the output head [vocab, width]
  bool tied_head = false;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  int64_t kv_heads = 0;  // heads of keys, and of values
  int64_t head_dim = 0;
  // For planning memory: see ModelSizes.
  int64_t activation_copies = 1;
  int64_t scores_at_once = 0;
  int64_t fused_attention_features = 0;
  int64_t heads = 0;

  // Adds a tensor to the table, by its full name with {} for the block's number.
  void add(const std::string& name, std::vector<int64_t> shape);
  // A norm of a scale and a shift [width] each, by its full name.
  void add_norm(const std::string& name, int64_t width);
  // A linear of each block, by its name within the block: weight [out, in], and bias [out].
  void add_linear(const std::string& name, int64_t out, int64_t in, bool bias);
  // The head [vocabulary, width], which a tied checkpoint may lack.
  void add_head(int64_t width);
};

class Decoder : public CausalLm {
 public:
  int64_t block_count() const override { return facts_.table.blocks; }
  std::string block_name(int64_t block) const override;
  const std::vector<Stage>& stages() const override { return facts_.stages; }
  at::ScalarType dtype() const override { return dtype_; }
  at::Device device() const override { return device_; }
  int64_t vocab_size() const override { return facts_.vocab_size; }
  int64_t max_positions() const override { return facts_.max_positions; }
  int64_t cached_per_token() const override {
    return 2 * facts_.kv_heads * facts_.head_dim * facts_.table.blocks;
  }
  CacheShape cache_shape(int64_t batch, int64_t positions) const override;
  at::Tensor run_cached(const at::Tensor& ids, KvCache& cache) override;
  bool records_steps() const override;
  at::Tensor placed_ids(const at::Tensor& ids) const override;
  void hold_blocks() override;
  std::string architecture() const override { return facts_.architecture; }
  std::optional<int64_t> bos_token_id() const override { return bos_token_id_; }
  std::optional<int64_t> eos_token_id() const override { return eos_token_id_; }
  std::string fingerprint() const override { return weights_->fingerprint(); }
  std::vector<std::string> tensor_names() const override;
  at::Tensor tensor(const std::string& name) override;
  PackedShare packed_share() const override { return weights_->packed_share(); }
  std::vector<std::string> notes() const override { return weights_->notes(); }
  std::map<std::string, int64_t> kernels_run() const override;
  int64_t parameter_count() const override;
  ModelSizes sizes() const override;

  void load_block(int64_t block) override;
  void release_block() override;
  double read_busy_seconds() const override { return read_seconds_ + ahead_.busy_seconds(); }
  // Linears that round their inputs look for outliers, which waits; packed ones share memory that
  // may grow.
  bool recordable() const override { return block_int8_.empty() && block_packed_.empty(); }
  at::Tensor weight(const std::string& linear) const override;
  void replace(const std::string& linear, const LinearReplacement& replacement) override;
  void leave_replaced_to(ReplacedShelf* shelf) override { replaced_.leave_to(shelf); }
  void divide_output(const std::string& producer, const at::Tensor& scale) override;
  void try_weights(const std::string& linear, const at::Tensor& weights) override;
  at::Tensor run_linear(const std::string& name, const at::Tensor& input) const override {
    return linear(name, input);
  }
  ModelExtras extras() const override;
  at::Tensor end_weight(ModelEnd end) override;
  void replace_end(ModelEnd end, const LinearReplacement& replacement) override;
  at::Tensor logits(const at::Tensor& hidden) override;

 protected:
  // Checks the checkpoint against the table, and a tied head against its twin. Throws Error.
  Decoder(ModelSource source, DecoderFacts facts);

  // `ids` as i64 on the CPU. Throws Error: not [sequences, seqlen], an id outside the vocabulary,
  // too many positions.
  at::Tensor checked_ids(const at::Tensor& ids) const;
  // Rows of a table that stays on the host, in the model's dtype on its device.
  at::Tensor gather_rows(const std::string& name, const at::Tensor& ids);
  // The same of a table on the device, kept there: rows of `ids`, on the device and unchecked.
  at::Tensor device_rows(const std::string& name, const at::Tensor& ids);
  // What enters block 0 for `ids` i64 [batch, count] at `positions` i64 [count], both on the device
  // and unchecked.
  virtual at::Tensor embed_at(const at::Tensor& ids, const at::Tensor& positions) = 0;
  // While blocks run in run_cached: what they put keys and values into, and attend to; else null.
  KvCache* cache() const { return cache_; }
  // Whether that is about one token a sequence, and its small operations are fused ones
  // (models/decode_ops.h).
  bool stepping() const { return stepping_; }
  // residual + delta, which while stepping waits for normed(). `delta` is used up.
  void add(at::Tensor& residual, at::Tensor delta);
  // The norm of `residual`, once what was to be added to it is.
  at::Tensor normed(at::Tensor& residual, const Norm& norm);
  int64_t loaded_block() const { return loaded_block_; }
  // A tensor outside the blocks, in the model's dtype on its device; kept there from its first use
  // on.
  const at::Tensor& end_tensor(const std::string& name);

  // A tensor of the loaded block by its name within the block; undefined if the table has none of
  // that name.
  const at::Tensor& block_tensor(const std::string& name) const;
  // Divides what the activation `name` of the loaded block put out, if scales were moved into it.
  void apply_divisor(const std::string& name, at::Tensor& activation) const;
  // x W^T + b, with b where the model has one.
  at::Tensor linear(const std::string& name, const at::Tensor& x) const;
  // What the linears of a stage make of the input they share, in their order: one product where
  // held blocks have them as one. Of one token a sequence these may be views into its rows.
  std::vector<at::Tensor> stage_linears(size_t stage, const at::Tensor& x) const;
  // relu(linear(name, x)): on a GPU with a bias, from the product's registers.
  at::Tensor linear_relu(const std::string& name, const at::Tensor& x) const;
  // The same with GELU by tanh, of float32 sums.
  at::Tensor linear_gelu(const std::string& name, const at::Tensor& x) const;

 private:
  // The linears of a stage as one.
  struct JoinedLinears {
    at::Tensor weight;                   // [sum of rows, in]; the linears' own are views of it
    std::optional<PackedLinear> packed;  // in its stead; the linears' own are gone
    at::Tensor bias;                     // undefined: none
    std::vector<int64_t> rows;
  };
  struct HeldBlock {
    std::map<std::string, at::Tensor> tensors;
    std::map<std::string, Int8Linear> int8;
    std::map<std::string, PackedLinear> packed;
    std::map<size_t, JoinedLinears> joined;
  };

  at::Tensor linear_activated(const std::string& name, const at::Tensor& x, bool gelu) const;
  // Kernels for all packed linears. Throws Error naming what cannot be computed from its codes.
  std::unique_ptr<PackedProducts> checked_products() const;
  bool by_kernel(const std::string& full_name) const {
    return products_ != nullptr && weights_->packed_as(full_name).has_value();
  }
  PackedLinear packed_linear(const std::string& full_name) const;
  void check_tied_head() const;
  // (name within the block, full name) of each tensor of a block.
  std::vector<std::pair<std::string, std::string>> names_of_block(int64_t block) const;
  // Whether a tensor computes as its source has it.
  bool as_loaded(int64_t block, const std::string& name, const std::string& full_name) const;
  void read_ahead(int64_t block);
  // Of held blocks: takes the loaded one out; puts it back where it is held; loads `block` from
  // there.
  HeldBlock take_loaded();
  void put_back();
  void take_held(int64_t block);
  // Of the loaded block: joins what can be joined; takes the stage of `linear` apart again.
  void join_linears();
  void take_apart(const std::string& linear);
  // The stage of a linear, and its place there. Throws Error if there is none of that name.
  std::pair<size_t, size_t> place_of(const std::string& linear) const;
  // What `linear` makes of `x`, of the product that it is joined in.
  at::Tensor joined_part(const std::string& linear, const at::Tensor& x) const;
  at::Tensor load_to_device(const std::string& name);
  // Whether the head computes with the embedding's tensor.
  bool tied() const { return facts_.tied_head && !head_.defined() && !embedding_.defined(); }

  DecoderFacts facts_;
  std::unique_ptr<WeightSource> weights_;
  std::optional<int64_t> bos_token_id_;
  std::optional<int64_t> eos_token_id_;
  at::Device device_;
  at::ScalarType dtype_;
  std::map<std::string, at::Tensor> ends_;      // by the table's name, on the device
  ReplacedWeights replaced_;                    // linears
  std::map<std::string, at::Tensor> divided_;   // norms and biases, by full name, on the host
  std::map<std::string, at::Tensor> divisors_;  // of activations by full name, on the device
  at::Tensor head_;       // replaced head, on the device; undefined: as loaded
  at::Tensor embedding_;  // replaced embedding, on the host or where device_rows put it; undefined:
                          // as loaded
  int64_t loaded_block_ = -1;
  std::map<std::string, at::Tensor> block_;       // by name within the block, on the device
  std::map<std::string, Int8Linear> block_int8_;  // the same for linears that round their inputs
  std::unique_ptr<PackedProducts> products_;      // null: packed linears are dequantized
  std::map<std::string, PackedLinear> block_packed_;  // the same for linears computed from codes
  std::map<size_t, JoinedLinears> block_joined_;      // by stage, of held blocks
  std::vector<HeldBlock> held_;  // all blocks, the loaded one's place empty; or none
  KvCache* cache_ = nullptr;     // of the run_cached that is under way
  bool stepping_ = false;
  at::Tensor pending_;       // while stepping: what is still to be added to the residual
  double read_seconds_ = 0;  // in load_block
  bool reads_ahead_ = false;
  ReadAhead ahead_;  // its thread uses what stands above
};

}  // namespace gptqb
