// Head and embedding, where they are quantized too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "methods/quantize_model.h"
#include "tests/support/layers.h"
#include "tests/support/memory_store.h"
#include "tests/support/tiny_model.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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

}  // namespace
}  // namespace gptqb::test
