// The block driver on a small model: what is quantized on which activations.
#include "methods/quantize_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/layers.h"
#include "tests/support/tiny_model.h"

namespace gptqb::test {
namespace {

using ::testing::ElementsAre;

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

}  // namespace
}  // namespace gptqb::test
