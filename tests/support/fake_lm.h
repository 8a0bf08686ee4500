// A language model whose logits a test writes down: one-hot "hidden states" of the ids, one block
// that passes them on, and a table of logits for each id.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/causal_lm.h"

namespace gptqb::test {

class FakeLm final : public CausalLm {
 public:
  // `table` [vocab, vocab]: row i holds the logits after id i.
  FakeLm(at::Tensor table, at::ScalarType dtype, int64_t max_positions)
      : table_(table.to(dtype)), dtype_(dtype), max_positions_(max_positions) {}

  int64_t block_count() const override { return 1; }
  std::string block_name(int64_t) const override { return "block"; }
  const std::vector<Stage>& stages() const override {
    static const std::vector<Stage> none;
    return none;
  }
  at::ScalarType dtype() const override { return dtype_; }
  at::Device device() const override { return at::kCPU; }
  at::Tensor embed(const at::Tensor& ids) override {
    return at::one_hot(ids, vocab_size()).to(dtype_);
  }
  void load_block(int64_t) override { ++loads; }
  void release_block() override {}
  BlockActivations begin(const at::Tensor& hidden) override { return {hidden, {}}; }
  void run_stage(size_t, BlockActivations&) override {}
  at::Tensor weight(const std::string&) const override { return {}; }
  void replace(const std::string&, const LinearReplacement&) override {}
  ModelExtras extras() const override { return {}; }
  at::Tensor end_weight(ModelEnd) override { return {}; }
  void replace_end(ModelEnd, const LinearReplacement&) override {}
  at::Tensor head_input(const at::Tensor& hidden) override { return hidden; }
  int64_t parameter_count() const override { return table_.numel(); }

  int64_t vocab_size() const override { return table_.size(0); }
  int64_t max_positions() const override { return max_positions_; }
  std::string architecture() const override { return "fake"; }
  std::optional<int64_t> bos_token_id() const override { return std::nullopt; }
  std::optional<int64_t> eos_token_id() const override { return std::nullopt; }
  at::Tensor logits(const at::Tensor& hidden) override { return hidden.matmul(table_); }
  std::string fingerprint() const override { return "fake"; }
  std::vector<std::string> tensor_names() const override { return {}; }
  at::Tensor tensor(const std::string&) override { return {}; }

  int loads = 0;

 private:
  at::Tensor table_;
  at::ScalarType dtype_;
  int64_t max_positions_;
};

// Windows cut from `ids`, which must fill them exactly.
inline TokenWindows windows_of(std::vector<int32_t> ids, int64_t seqlen) {
  TokenWindows windows;
  windows.seqlen = seqlen;
  windows.count = static_cast<int64_t>(ids.size()) / seqlen;
  windows.ids = std::move(ids);
  windows.dataset = "test";
  return windows;
}

}  // namespace gptqb::test
