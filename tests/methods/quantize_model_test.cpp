// The block driver on a small model whose forward pass is written out here, with every call
// counted.
#include "methods/quantize_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "common/error.h"
#include "tests/support/layers.h"
#include "tests/support/memory_store.h"
#include "tests/support/problems.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kHidden = 12;
constexpr int64_t kInner = 20;
constexpr int64_t kVocabulary = 30;

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

at::Tensor random_ids(int64_t sequences, int64_t seqlen, uint64_t seed) {
  std::mt19937_64 generator(seed);
  auto ids = at::empty({sequences, seqlen}, at::kLong);
  for (int64_t i = 0; i < ids.numel(); ++i)
    ids.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(generator() % kVocabulary);
  return ids;
}

QuantizeOptions options_for(const std::string& method, int64_t bits = 3) {
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

const at::Tensor kCalibration = random_ids(6, 16, 1);
const at::Tensor kHeldout = random_ids(2, 16, 2);

// The published flow, written out: every block on the quantized outputs before it, all H from the
// dense block.
TEST(QuantizeModel, FollowsThePublishedBlockFlow) {
  TinyModel model(3);
  const TinyModel dense(3);
  auto options = options_for("gptq");
  options.sequences_per_chunk = 4;  // 6 sequences: chunks of 4 and 2
  const auto report = quantize_model(model, kCalibration, kHeldout, options);

  auto x = dense.forward(kCalibration, 0);
  for (int64_t block = 0; block < 3; ++block) {
    const auto gate = dense.weight_of(block, "gate");
    const auto up = dense.weight_of(block, "up");
    const auto inner = at::tanh(at::linear(x, gate)) * at::linear(x, up);
    const auto expect = [&](const std::string& linear, const at::Tensor& inputs) {
      const auto stats = stats_of(inputs);
      auto problem = layer_problem(dense.weight_of(block, linear), &stats);
      problem.quant.bits = 3;
      const auto expected = quantize_with("gptq", problem);
      EXPECT_TRUE(at::allclose(model.weight_of(block, linear),
                               expected.quantized().dequantize(at::kFloat), 1e-5, 1e-6))
          << block << linear;
    };
    expect("gate", x);
    expect("up", x);
    expect("down", inner);
    const auto w = [&](const char* linear) { return model.weight_of(block, linear); };
    x = x + at::linear(at::tanh(at::linear(x, w("gate"))) * at::linear(x, w("up")), w("down"));
  }

  ASSERT_EQ(report.layers.size(), 9U);
  EXPECT_EQ(report.layers[0].layer, "blocks.0.gate");
  EXPECT_EQ(report.layers[1].layer, "blocks.0.up");
  EXPECT_EQ(report.layers[2].layer, "blocks.0.down");
  EXPECT_EQ(report.layers[8].layer, "blocks.2.down");
  for (const auto& layer : report.layers) {
    EXPECT_EQ(layer.tokens, 96);
    EXPECT_EQ(layer.sequences, 6);
    EXPECT_TRUE(layer.loss && layer.relative_error && layer.relative_error_heldout &&
                layer.relative_error_rtn && layer.drift);
  }
  EXPECT_EQ(report.quantized_weights, 3 * 3 * kHidden * kInner);
  EXPECT_EQ(report.quantized_bits,
            3 * (3 * 3 * kHidden * kInner + (2 * kInner + kHidden) * (32 + 3)));
  EXPECT_THAT(model.loads, ElementsAre(0, 1, 2));
}

// Drift is the distance of the quantized model's hidden states from the dense model's.
TEST(QuantizeModel, DriftIsMeasuredOnBlockOutputs) {
  TinyModel model(2);
  const TinyModel dense(2);
  const auto report = quantize_model(model, kCalibration, kHeldout, options_for("gptq"));
  for (int64_t block = 0; block < 2; ++block) {
    const auto wanted = dense.forward(kHeldout, block + 1);
    const double drift =
        ((model.forward(kHeldout, block + 1) - wanted).norm() / wanted.norm()).item<double>();
    EXPECT_NEAR(*report.layers[3 * block].drift, drift, 1e-5 * drift);
    EXPECT_EQ(*report.layers[3 * block].drift, *report.layers[3 * block + 2].drift);
  }
}

// Cost: without true-sequential the first pass stops before the last stage and the last block has
// no second pass.
TEST(QuantizeModel, CountsForwardPasses) {
  TinyModel model(3);
  quantize_model(model, kCalibration, {}, options_for("gptq"));
  EXPECT_EQ(model.begins, 6 * 3 + 6 * 2);  // statistics; outputs of all blocks but the last
  EXPECT_EQ(model.stage_runs[0], 6 * 3 + 6 * 2);
  EXPECT_EQ(model.stage_runs[1], 6 * 2);

  TinyModel sequential(3);
  auto options = options_for("gptq");
  options.method.true_sequential = true;
  quantize_model(sequential, kCalibration, {}, options);
  EXPECT_EQ(sequential.begins, 6 * 3);  // one pass a block
  EXPECT_EQ(sequential.stage_runs[0], 6 * 3);
  EXPECT_EQ(sequential.stage_runs[1], 6 * 2);
}

// QN-17: with true-sequential the second stage sees the quantized first one.
TEST(QuantizeModel, TrueSequentialSeesQuantizedStages) {
  TinyModel at_once(1);
  TinyModel in_sequence(1);
  const TinyModel dense(1);
  auto options = options_for("gptq", 2);
  quantize_model(at_once, kCalibration, {}, options);
  options.method.true_sequential = true;
  quantize_model(in_sequence, kCalibration, {}, options);
  EXPECT_TRUE(at::equal(at_once.weight_of(0, "gate"), in_sequence.weight_of(0, "gate")));
  EXPECT_FALSE(at::equal(at_once.weight_of(0, "down"), in_sequence.weight_of(0, "down")));

  const auto x = dense.forward(kCalibration, 0);
  const auto inner = at::tanh(at::linear(x, in_sequence.weight_of(0, "gate"))) *
                     at::linear(x, in_sequence.weight_of(0, "up"));
  const auto stats = stats_of(inner);
  auto problem = layer_problem(dense.weight_of(0, "down"), &stats);
  problem.quant.bits = 2;
  EXPECT_TRUE(at::allclose(in_sequence.weight_of(0, "down"),
                           quantize_with("gptq", problem).quantized().dequantize(at::kFloat), 1e-5,
                           1e-6));
}

// inputs: dense. Statistics are those of the dense model; drift is still that of the quantized one.
TEST(QuantizeModel, DenseInputsAreThoseOfDenseBlocks) {
  const TinyModel dense(2);
  for (const bool true_sequential : {false, true}) {
    TinyModel model(2);
    auto options = options_for("gptq", 2);
    options.method.inputs = StatsInputs::kDense;
    options.method.true_sequential = true_sequential;
    const auto report = quantize_model(model, kCalibration, kHeldout, options);
    const auto stats = stats_of(dense.forward(kCalibration, 1));
    auto problem = layer_problem(dense.weight_of(1, "gate"), &stats);
    problem.quant.bits = 2;
    EXPECT_TRUE(at::allclose(model.weight_of(1, "gate"),
                             quantize_with("gptq", problem).quantized().dequantize(at::kFloat),
                             1e-5, 1e-6));
    const auto wanted = dense.forward(kHeldout, 2);
    const double drift =
        ((model.forward(kHeldout, 2) - wanted).norm() / wanted.norm()).item<double>();
    EXPECT_NEAR(*report.layers[5].drift, drift, 1e-5 * drift);
  }
}

TEST(QuantizeModel, ChunksDoNotChangeTheResult) {
  TinyModel one(2);
  TinyModel all(2);
  auto options = options_for("gptq");
  quantize_model(one, kCalibration, {}, options);
  options.sequences_per_chunk = 100;
  quantize_model(all, kCalibration, {}, options);
  for (const char* linear : {"gate", "up", "down"})
    EXPECT_TRUE(at::allclose(one.weight_of(1, linear), all.weight_of(1, linear), 1e-4, 1e-5));
}

// A run that was stopped goes on where it stopped and ends as if it had not been.
TEST(QuantizeModel, ResumeEqualsAnUninterruptedRun) {
  for (const bool dense_inputs : {false, true}) {
    for (const bool true_sequential : {false, true}) {
      auto options = options_for("gptq");
      options.method.inputs = dense_inputs ? StatsInputs::kDense : StatsInputs::kQuantized;
      options.method.true_sequential = true_sequential;
      TinyModel whole(3);
      const auto expected = quantize_model(whole, kCalibration, kHeldout, options);

      MemoryStore store;
      options.resume = &store;
      TinyModel stopped(3);
      stopped.interrupt_at = 2;
      EXPECT_THROW(quantize_model(stopped, kCalibration, kHeldout, options), Interrupted);
      interrupt_requested() = false;
      EXPECT_EQ(store.blocks.size(), 2U);

      TinyModel resumed(3);
      const auto report = quantize_model(resumed, kCalibration, kHeldout, options);
      EXPECT_EQ(report.resumed_blocks, 2);
      EXPECT_EQ(store.blocks.size(), 3U);
      ASSERT_EQ(report.layers.size(), expected.layers.size());
      for (size_t i = 0; i < expected.layers.size(); ++i) {
        EXPECT_EQ(report.layers[i].layer, expected.layers[i].layer);
        EXPECT_EQ(report.layers[i].loss, expected.layers[i].loss);
        EXPECT_EQ(report.layers[i].drift, expected.layers[i].drift);
        EXPECT_EQ(report.layers[i].relative_error_heldout,
                  expected.layers[i].relative_error_heldout);
      }
      EXPECT_EQ(report.quantized_bits, expected.quantized_bits);
      for (int64_t block = 0; block < 3; ++block)
        for (const char* linear : {"gate", "up", "down"})
          EXPECT_TRUE(at::equal(resumed.weight_of(block, linear), whole.weight_of(block, linear)));

      TinyModel again(3);  // everything is kept: nothing is quantized a second time
      EXPECT_EQ(quantize_model(again, kCalibration, kHeldout, options).resumed_blocks, 3);
      EXPECT_TRUE(at::equal(again.weight_of(2, "down"), whole.weight_of(2, "down")));
    }
  }
}

// The store is slow, and no block waits for the one before it to be kept but the next but one.
TEST(QuantizeModel, BlocksAreKeptWhileTheNextOneIsQuantized) {
  struct WaitingStore : MemoryStore {
    void save(int64_t block, const FinishedBlock& finished) override {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (blocks_begun <= block + 1 && block < 2 && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      late += std::chrono::steady_clock::now() >= deadline;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      MemoryStore::save(block, finished);
    }
    std::atomic<int64_t> blocks_begun = 0;
    std::atomic<int64_t> late = 0;
  };
  WaitingStore store;
  auto options = options_for("gptq");
  options.resume = &store;
  TinyModel model(3);
  model.on_load = [&](int64_t block) { store.blocks_begun = block + 1; };
  const auto report = quantize_model(model, kCalibration, kHeldout, options);
  EXPECT_EQ(store.late, 0) << "the next block was not begun before this one was kept";
  EXPECT_EQ(store.blocks.size(), 3U) << "all are kept when the call returns";
  EXPECT_GE(report.write_busy_seconds, 0.03);
}

TEST(QuantizeModel, ABlockThatCannotBeKeptEndsTheRun) {
  struct FullDisk : MemoryStore {
    void save(int64_t block, const FinishedBlock& finished) override {
      if (block == refused) throw Error("block file", "expected room on the disk, got none");
      MemoryStore::save(block, finished);
    }
    int64_t refused = 0;
  };
  for (const int64_t refused : {0, 2}) {
    FullDisk store;
    store.refused = refused;
    auto options = options_for("rtn");
    options.resume = &store;
    TinyModel model(3);
    EXPECT_THAT([&] { quantize_model(model, kCalibration, {}, options); },
                ThrowsMessage<Error>(HasSubstr("[block file] expected room on the disk")));
    EXPECT_EQ(static_cast<int64_t>(store.blocks.size()), refused);
  }
}

TEST(QuantizeModel, ResumeRefusesOtherActivations) {
  auto options = options_for("gptq");
  MemoryStore store;
  options.resume = &store;
  TinyModel first(2);
  quantize_model(first, kCalibration, {}, options);
  store.blocks.erase(1);
  TinyModel second(2);
  EXPECT_THAT([&] { quantize_model(second, random_ids(6, 16, 77), {}, options); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("[blocks.0]"), HasSubstr("different"), HasSubstr("--fresh"))));
  store.blocks[0].linears.erase("up");
  TinyModel third(2);
  EXPECT_THAT([&] { quantize_model(third, kCalibration, {}, options); },
              ThrowsMessage<Error>(AllOf(HasSubstr("[blocks.0.up]"), HasSubstr("--fresh"))));
}

// Overrides: layers left out stay dense and say so; others take their own settings.
TEST(QuantizeModel, OverridesReachTheirLayers) {
  TinyModel model(2);
  const TinyModel dense(2);
  auto options = options_for("gptq");
  const auto base = options.settings;
  options.settings = [base](const std::string& layer) {
    auto settings = base(layer);
    if (layer == "blocks.0.up") {
      settings.skip = true;
      settings.rule = "*.0.up: skip true";
    }
    if (layer == "blocks.1.gate") settings.method = "none";
    if (layer == "blocks.1.down") {
      settings.quant.bits = 8;
      settings.rule = "*.1.down: quant.bits 8";
    }
    if (layer == "blocks.1.up") settings.method = "rtn";
    return settings;
  };
  const auto report = quantize_model(model, kCalibration, kHeldout, options);
  EXPECT_TRUE(at::equal(model.weight_of(0, "up"), dense.weight_of(0, "up")));
  EXPECT_EQ(model.replaced.count("blocks.0.up"), 0U);
  EXPECT_EQ(report.layers[1].status, "skipped: left dense by an override");
  EXPECT_EQ(report.layers[3].status, "skipped: method none leaves layers dense");
  EXPECT_EQ(report.layers[4].method, "rtn");
  EXPECT_EQ(report.layers[5].bits, 8);
  EXPECT_EQ(report.layers[0].rule, "");
  EXPECT_EQ(report.layers[1].rule, "*.0.up: skip true");
  EXPECT_EQ(report.layers[5].rule, "*.1.down: quant.bits 8");
  EXPECT_EQ(report.quantized_weights, 4 * kHidden * kInner);
}

// Fault GG-15: layers left dense, levels and scales are in the count of stored bits.
TEST(QuantizeModel, TernaryLayersAreReplacedAndCounted) {
  TinyModel model(1);
  auto options = options_for("gptq");
  options.method.act_order = true;
  options.settings = [](const std::string& layer) {
    return LayerSettings{.skip = layer == "blocks.0.down",
                         .method = "gptq",
                         .quant = {.bits = QuantConfig::kTernary, .group_size = 8}};
  };
  const auto report = quantize_model(model, kCalibration, kHeldout, options);
  EXPECT_EQ(report.layers[0].bits, QuantConfig::kTernary);
  EXPECT_EQ(report.layers[0].status, "ok");
  EXPECT_EQ(report.quantized_weights, 2 * kHidden * kInner);
  EXPECT_EQ(report.linear_weights, 3 * kHidden * kInner);
  // 2 bits a code, two float16 levels a group, an index for each input.
  const int64_t groups = (kHidden + 7) / 8;
  EXPECT_EQ(report.quantized_bits,
            2 * (kHidden * kInner * 2 + kInner * groups * 2 * 16 + 32 * kHidden));
}

constexpr QuantConfig kEndQuant{.bits = 2, .group_size = 8, .scale_dtype = ScaleDtype::kFloat32};

// The head is one more linear: its H is that of what leaves the last (quantized) block, through the
// final norm.
TEST(QuantizeModel, TheHeadIsSolvedOnWhatLeavesTheLastBlock) {
  for (const bool true_sequential : {false, true}) {
    TinyModel model(2);
    TinyModel dense(2);
    auto options = options_for("gptq");
    options.method.true_sequential = true_sequential;
    options.head = kEndQuant;
    const auto report = quantize_model(model, kCalibration, kHeldout, options);

    const auto stats = stats_of(at::tanh(model.forward(kCalibration, 2)));
    auto problem = layer_problem(dense.end_weight(ModelEnd::kHead), &stats);
    problem.quant = kEndQuant;
    const auto expected = quantize_with("gptq", problem);
    EXPECT_TRUE(at::allclose(model.end_weight(ModelEnd::kHead),
                             expected.quantized().dequantize(at::kFloat), 1e-5, 1e-6));
    ASSERT_EQ(report.layers.size(), 7U);
    const LayerHealth& health = report.layers.back();
    EXPECT_EQ(health.layer, "head");
    EXPECT_EQ(health.method, "gptq");
    EXPECT_EQ(health.bits, 2);
    EXPECT_EQ(health.tokens, 96);
    EXPECT_NEAR(*health.relative_error, *expected.health.relative_error, 1e-5);
    const auto heldout = stats_of(at::tanh(model.forward(kHeldout, 2)));
    EXPECT_NEAR(*health.relative_error_heldout,
                *relative_error(dense.end_weight(ModelEnd::kHead), expected.replacement, heldout),
                1e-5);
    EXPECT_EQ(report.end_weights, kVocabulary * kHidden);
    // Groups of 8 of 12 columns: two a row, each a float32 scale and a 2-bit zero.
    EXPECT_EQ(report.end_bits, kVocabulary * (2 * kHidden + 2 * (32 + 2)));
    EXPECT_EQ(report.quantized_weights, 2 * 3 * kHidden * kInner) << "of the blocks alone";
    EXPECT_FALSE(report.untied_head);
  }
}

// Rounded to the nearest whatever the method; its errors weigh each row by how often it is looked
// up, and the blocks behind it see what it became.
TEST(QuantizeModel, TheEmbeddingIsRoundedAndFeedsTheBlocks) {
  TinyModel model(1);
  TinyModel dense(1);
  auto options = options_for("gptq");
  options.embedding = kEndQuant;
  const auto report = quantize_model(model, kCalibration, kHeldout, options);

  const auto weight = dense.end_weight(ModelEnd::kEmbedding);
  auto rounding = layer_problem(weight, nullptr);
  rounding.quant = kEndQuant;
  const auto rounded = quantize_with("rtn", rounding).quantized().dequantize(at::kFloat);
  EXPECT_TRUE(at::equal(model.end_weight(ModelEnd::kEmbedding), rounded));

  const auto stats = stats_of(model.forward(kCalibration, 0));
  auto problem = layer_problem(dense.weight_of(0, "gate"), &stats);
  problem.quant.bits = 3;
  EXPECT_TRUE(at::allclose(model.weight_of(0, "gate"),
                           quantize_with("gptq", problem).quantized().dequantize(at::kFloat), 1e-5,
                           1e-6));

  ASSERT_EQ(report.layers.size(), 4U);
  const LayerHealth& health = report.layers.front();
  EXPECT_EQ(health.layer, "embedding");
  EXPECT_EQ(health.method, "rtn");
  EXPECT_EQ(health.sequences, 6);
  const auto share = [&](const at::Tensor& ids) {
    const auto error = at::embedding(weight - rounded, ids).square().sum();
    return (error / at::embedding(weight, ids).square().sum()).item<double>();
  };
  EXPECT_NEAR(*health.relative_error, share(kCalibration), 1e-6);
  EXPECT_NEAR(*health.relative_error_heldout, share(kHeldout), 1e-6);
  EXPECT_EQ(report.end_weights, kVocabulary * kHidden);
  // Drift is the distance from the model with its own embedding.
  const auto wanted = dense.forward(kHeldout, 1);
  EXPECT_NEAR(*report.layers[1].drift,
              ((model.forward(kHeldout, 1) - wanted).norm() / wanted.norm()).item<double>(), 1e-5);
}

TEST(QuantizeModel, EndsAreResumedAndNeedNoQuantizedBlock) {
  for (const bool dense_inputs : {false, true}) {
    auto options = options_for("gptq");
    options.method.inputs = dense_inputs ? StatsInputs::kDense : StatsInputs::kQuantized;
    options.head = options.embedding = kEndQuant;
    TinyModel whole(2);
    const auto expected = quantize_model(whole, kCalibration, kHeldout, options);
    MemoryStore store;
    options.resume = &store;
    for (const bool in_head : {true, false}) {  // stopped behind the last block, and not at all
      TinyModel part(2);
      part.interrupt_in_head = in_head;
      try {
        quantize_model(part, kCalibration, kHeldout, options);
      } catch (const Interrupted&) {
      }
      interrupt_requested() = false;
    }
    EXPECT_EQ(store.blocks.size(), 3U);
    TinyModel resumed(2);
    const auto report = quantize_model(resumed, kCalibration, kHeldout, options);
    EXPECT_EQ(report.resumed_blocks, 2);
    for (const ModelEnd end : {ModelEnd::kEmbedding, ModelEnd::kHead})
      EXPECT_TRUE(at::equal(resumed.end_weight(end), whole.end_weight(end)));
    ASSERT_EQ(report.layers.size(), 8U);
    for (size_t i = 0; i < report.layers.size(); ++i) {
      EXPECT_EQ(report.layers[i].layer, expected.layers[i].layer);
      EXPECT_EQ(report.layers[i].relative_error, expected.layers[i].relative_error);
    }
    EXPECT_EQ(report.end_bits, expected.end_bits);
  }
  // All layers of the blocks left dense: the head alone is quantized, without data by rounding.
  auto options = options_for("rtn");
  options.settings = [](const std::string&) {
    return LayerSettings{.skip = true, .method = "rtn", .quant = {}};
  };
  options.head = kEndQuant;
  TinyModel model(2);
  TinyModel dense(2);
  const auto report = quantize_model(model, {}, {}, options);
  EXPECT_EQ(report.quantized_weights, 0);
  EXPECT_FALSE(at::equal(model.end_weight(ModelEnd::kHead), dense.end_weight(ModelEnd::kHead)));
  options.method.name = "gptq";
  EXPECT_THAT([&] { quantize_model(dense, {}, {}, options); },
              ThrowsMessage<Error>(HasSubstr("[head] expected calibration windows")));
  options.head->bits = 5;
  EXPECT_THAT([&] { quantize_model(dense, kCalibration, {}, options); },
              ThrowsMessage<Error>(AllOf(HasSubstr("head"), HasSubstr("got 5"))));
}

// Sampling: layers outside the glob stay dense and say so; of the others a few rows are solved.
TEST(QuantizeModel, SamplesLayersAndRows) {
  const TinyModel dense(2);
  for (const char* method : {"gptq", "obq"}) {
    TinyModel model(2);
    auto options = options_for(method);
    options.method.layers = "blocks.1.*";
    options.method.rows = 2;
    const auto report = quantize_model(model, kCalibration, kHeldout, options);
    for (const char* linear : {"gate", "up", "down"})
      EXPECT_TRUE(at::equal(model.weight_of(0, linear), dense.weight_of(0, linear)));
    EXPECT_EQ(report.layers[0].status, "skipped: left dense, not of method.layers blocks.1.*");
    EXPECT_FALSE(report.layers[0].rows_solved.has_value());
    EXPECT_EQ(report.layers[3].status, "ok");
    EXPECT_EQ(report.layers[3].method, method);
    EXPECT_EQ(report.layers[3].rows_solved, 2);
    EXPECT_EQ(report.quantized_weights, 3 * kHidden * kInner);
  }
}

// RTN needs no data; with data it reports the same columns as GPTQ (EH-17).
TEST(QuantizeModel, RtnWorksWithAndWithoutData) {
  TinyModel without(2);
  const auto bare = quantize_model(without, {}, {}, options_for("rtn"));
  EXPECT_EQ(without.begins, 0);
  EXPECT_FALSE(bare.layers[0].relative_error.has_value());
  TinyModel with(2);
  const auto full = quantize_model(with, kCalibration, kHeldout, options_for("rtn"));
  for (const auto& layer : full.layers)
    EXPECT_TRUE(layer.loss && layer.relative_error && layer.relative_error_heldout && layer.drift);
  EXPECT_TRUE(at::equal(with.weight_of(1, "down"), without.weight_of(1, "down")));
}

TEST(QuantizeModel, NoneTouchesNothing) {
  TinyModel model(2);
  const auto report = quantize_model(model, kCalibration, kHeldout, options_for("none"));
  EXPECT_EQ(model.begins, 0);
  EXPECT_TRUE(model.replaced.empty());
  EXPECT_EQ(report.layers.size(), 6U);
  EXPECT_EQ(report.quantized_weights, 0);
}

TEST(QuantizeModel, ImpossibleSettingsAreRefusedBeforeAnyWork) {
  TinyModel model(2);
  EXPECT_THAT([&] { quantize_model(model, {}, {}, options_for("gptq")); },
              ThrowsMessage<Error>(HasSubstr("[blocks.0.gate] expected calibration windows")));
  EXPECT_THAT([&] { quantize_model(model, kCalibration, {}, options_for("gptp")); },
              ThrowsMessage<Error>(HasSubstr("gptq")));
  EXPECT_THAT([&] { quantize_model(model, kCalibration, {}, options_for("rtn", 5)); },
              ThrowsMessage<Error>(HasSubstr("got 5")));
  EXPECT_TRUE(model.loads.empty());
}

// Phases are exclusive: they add up to the whole.
// Of layers alone and of all together: the same seconds, and shapes to tell layers apart.
TEST(QuantizeModel, TimesOfLayersAddUpToThePhases) {
  TinyModel model(2);
  const auto report = quantize_model(model, random_ids(64, 64, 3), {}, options_for("gptq"));
  double hessian = 0, factor = 0, solve = 0;
  for (const LayerHealth& layer : report.layers) {
    hessian += layer.seconds_hessian;
    factor += layer.seconds_factor;
    solve += layer.seconds_solve + layer.seconds_errors;
    EXPECT_GT(layer.seconds_solve, 0);
    EXPECT_GT(layer.seconds_errors, 0);
    const bool down = layer.layer.ends_with("down");
    EXPECT_EQ(layer.out_features, down ? kHidden : kInner);
    EXPECT_EQ(layer.in_features, down ? kInner : kHidden);
    EXPECT_EQ(layer.hessian_shared_by, down ? 1 : 2);
  }
  EXPECT_NEAR(hessian, report.seconds.at("hessian"), 0.1 * hessian);
  EXPECT_NEAR(factor, report.seconds.at("factor"), 0.02 * factor);
  EXPECT_LE(solve, report.seconds.at("solve"));
  EXPECT_GT(solve, 0.5 * report.seconds.at("solve"));
}

TEST(QuantizeModel, PhasesAddUp) {
  TinyModel model(3);
  const auto report = quantize_model(model, kCalibration, kHeldout, options_for("gptq"));
  double sum = 0;
  for (const auto& [phase, seconds] : report.seconds) {
    EXPECT_GE(seconds, 0) << phase;
    sum += seconds;
  }
  EXPECT_NEAR(sum / report.seconds_total, 1, 0.05);
  for (const char* phase : {"read", "forward", "hessian", "factor", "solve"})
    EXPECT_EQ(report.seconds.count(phase), 1U) << phase;
}

}  // namespace
}  // namespace gptqb::test
