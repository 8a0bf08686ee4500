// What the block driver does with the settings of each layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "methods/quantize_model.h"
#include "tests/support/tiny_model.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

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

}  // namespace
}  // namespace gptqb::test
