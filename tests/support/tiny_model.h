// A small model whose forward pass is written out here, with every call counted.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/progress.h"
#include "methods/quantize_model.h"
#include "tests/support/problems.h"

namespace gptqb::test {

inline constexpr int64_t kHidden = 12;
inline constexpr int64_t kInner = 20;
inline constexpr int64_t kVocabulary = 30;

// Blocks of y = x + down(tanh(gate(x)) * up(x)): two stages, of two linears and of one.
class TinyModel : public BlockModel {
 public:
  explicit TinyModel(int64_t blocks) : stages_{{{"gate", "up"}}, {{"down"}}} {
    embedding_ = normal_matrix(kVocabulary, kHidden, 100).to(at::kFloat);
    head_ = normal_matrix(kVocabulary, kHidden, 101).to(at::kFloat);
    for (int64_t b = 0; b < blocks; ++b)
      weights_.push_back(
          {{"gate", normal_matrix(kInner, kHidden, 10 * b + 1).to(at::kFloat) * 0.4},
           {"up", normal_matrix(kInner, kHidden, 10 * b + 2).to(at::kFloat) * 0.4},
           {"down", normal_matrix(kHidden, kInner, 10 * b + 3).to(at::kFloat) * 0.3}});
  }

  int64_t block_count() const override { return static_cast<int64_t>(weights_.size()); }
  std::string block_name(int64_t block) const override { return "blocks." + std::to_string(block); }
  const std::vector<Stage>& stages() const override { return stages_; }
  at::ScalarType dtype() const override { return at::kFloat; }
  at::Device device() const override { return at::kCPU; }
  at::Tensor embed(const at::Tensor& ids) override { return at::embedding(embedding_, ids); }
  void load_block(int64_t block) override {
    on_load(block);
    if (block == interrupt_at) interrupt_requested() = true;
    loaded_ = block;
    loads.push_back(block);
  }
  void release_block() override { loaded_ = -1; }
  BlockActivations begin(const at::Tensor& hidden) override {
    ++begins;
    return {hidden, hidden};
  }
  void run_stage(size_t stage, BlockActivations& activations) override {
    ++stage_runs[stage];
    const auto& x = activations.input;
    if (stage == 0) {
      activations.input = at::tanh(at::linear(x, current("gate"))) * at::linear(x, current("up"));
    } else {
      activations.residual = activations.residual + at::linear(x, current("down"));
      activations.input = at::Tensor();
    }
  }
  at::Tensor weight(const std::string& linear) const override { return current(linear); }
  void replace(const std::string& linear, const LinearReplacement& replacement) override {
    weights_.at(loaded_).at(linear) = replacement.effective_weights(at::kFloat);
    replaced.insert(block_name(loaded_) + "." + linear);
  }
  ModelExtras extras() const override {
    return {"embedding", "head", {kVocabulary, kHidden}, {kVocabulary, kHidden}, false};
  }
  at::Tensor end_weight(ModelEnd end) override {
    return end == ModelEnd::kHead ? head_ : embedding_;
  }
  void replace_end(ModelEnd end, const LinearReplacement& replacement) override {
    (end == ModelEnd::kHead ? head_ : embedding_) = replacement.effective_weights(at::kFloat);
  }
  at::Tensor head_input(const at::Tensor& hidden) override {
    if (interrupt_in_head) interrupt_requested() = true;
    return at::tanh(hidden);
  }
  int64_t parameter_count() const override { return 0; }

  // The whole model on `ids`, without touching the counters.
  at::Tensor forward(const at::Tensor& ids, int64_t blocks) const {
    auto x = at::embedding(embedding_, ids);
    for (int64_t b = 0; b < blocks; ++b) {
      const auto& w = weights_[b];
      x = x + at::linear(at::tanh(at::linear(x, w.at("gate"))) * at::linear(x, w.at("up")),
                         w.at("down"));
    }
    return x;
  }
  const at::Tensor& weight_of(int64_t block, const std::string& linear) const {
    return weights_[block].at(linear);
  }

  std::function<void(int64_t)> on_load = [](int64_t) {};
  int64_t interrupt_at = -1;  // block at which the user presses Ctrl-C
  bool interrupt_in_head = false;
  std::vector<int64_t> loads;
  int64_t begins = 0;
  std::map<size_t, int64_t> stage_runs;
  std::set<std::string> replaced;

 private:
  const at::Tensor& current(const std::string& linear) const {
    return weights_.at(loaded_).at(linear);
  }

  std::vector<Stage> stages_;
  at::Tensor embedding_;
  at::Tensor head_;
  std::vector<std::map<std::string, at::Tensor>> weights_;
  int64_t loaded_ = -1;
};

inline at::Tensor random_ids(int64_t sequences, int64_t seqlen, uint64_t seed) {
  std::mt19937_64 generator(seed);
  auto ids = at::empty({sequences, seqlen}, at::kLong);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(generator() % kVocabulary);
  return ids;
}

inline QuantizeOptions options_for(const std::string& method, int64_t bits = 3) {
  QuantizeOptions options;
  options.method.name = method;
  options.method.compute = ComputeDtype::kFloat64;
  options.settings = [method, bits](const std::string&) {
    return LayerSettings{
        .skip = false,
        .method = method,
        .quant = {.bits = bits, .group_size = -1, .scale_dtype = ScaleDtype::kFloat32}};
  };
  return options;
}

inline const at::Tensor kCalibration = random_ids(6, 16, 1);
inline const at::Tensor kHeldout = random_ids(2, 16, 2);

}  // namespace gptqb::test
