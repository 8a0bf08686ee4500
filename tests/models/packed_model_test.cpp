// Packed folders of every kind as models: the same logits as the dense model of the dequantized
// weights, and what is refused.
#include "tests/models/packed_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gptqb::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Kind = PackedModel::Kind;

TEST(PackedModel, EveryFormatGivesTheDequantizedModelsLogits) {
  for (const Kind kind : {Kind::kV1, Kind::kV2, Kind::kCompressed})
    for (const int64_t bits : {2, 3, 4, 8})
      for (const bool symmetric : {true, false}) {
        SCOPED_TRACE(std::to_string(static_cast<int>(kind)) + ", " + std::to_string(bits) +
                     " bits");
        const PackedModel model(kind, {.bits = bits,
                                       .group_size = bits == 8 ? -1 : 16,
                                       .symmetric = symmetric,
                                       .act_order = !symmetric});
        const auto opened = model.open();
        EXPECT_TRUE(model.matches(*opened));
        EXPECT_THAT(opened->notes(), IsEmpty());
      }
}

// GG-15: bits of scales, zero points and indices count. 4 bits, groups of 16 with float16 scales
// and 4-bit zero points, an index of 32 bits an input.
TEST(PackedModel, StoredBitsAreThoseOfTheFile) {
  PackedModel model(Kind::kV2);
  const std::string layer = "model.layers.0.self_attn.q_proj.";
  const int64_t out = model.tensors().at(layer + "qweight").size(1);
  const int64_t in = model.tensors().at(layer + "g_idx").size(0);
  int64_t bits = 0, weights = 0;
  for (const auto& [name, tensor] : model.tensors()) {
    const bool packed = name.ends_with("qweight") || name.ends_with("qzeros") ||
                        name.ends_with("scales") || name.ends_with("g_idx");
    if (packed) bits += 8 * static_cast<int64_t>(tensor.nbytes());
    if (name.ends_with("qweight")) weights += tensor.numel() * 8;
  }
  EXPECT_EQ(model.tensors().at(layer + "qweight").numel() * 8, out * in);
  EXPECT_EQ(model.open()->packed_share().weights, weights);
  EXPECT_EQ(model.open()->packed_share().bits, bits);
}

// PK-04: symmetric zero points tell what they are. The experiment may say otherwise.
TEST(PackedModel, ZeroPointsWinOverAWrongLabel) {
  PackedModel model(Kind::kV2);
  model.settings()["checkpoint_format"] = "gptq";
  const auto opened = model.open();
  EXPECT_TRUE(model.matches(*opened));
  EXPECT_THAT(opened->notes(),
              ElementsAre(AllOf(HasSubstr("is labelled gptq"), HasSubstr("read as gptq_v2"))));
  const auto against = model.open("gptq");
  EXPECT_FALSE(model.matches(*against));
  EXPECT_THAT(against->notes(),
              ElementsAre(AllOf(HasSubstr("is read as gptq, as model.checkpoint_format says"),
                                HasSubstr("stored as in gptq_v2"))));
  EXPECT_THAT(model.open("gptq_v2")->notes(), IsEmpty());
}

TEST(PackedModel, WithoutALabelZeroPointsTell) {
  for (const Kind kind : {Kind::kV1, Kind::kV2}) {
    PackedModel model(kind);
    model.settings().erase("checkpoint_format");
    model.settings().erase("quant_method");
    const auto opened = model.open();
    EXPECT_TRUE(model.matches(*opened));
    EXPECT_THAT(opened->notes(), IsEmpty());
  }
  PackedModel asymmetric(Kind::kV1, {.group_size = 16});
  asymmetric.settings().erase("checkpoint_format");
  const auto opened = asymmetric.open();
  EXPECT_TRUE(asymmetric.matches(*opened));
  EXPECT_THAT(opened->notes(), ElementsAre(HasSubstr("set model.checkpoint_format: gptq_v2")));
}

TEST(PackedModel, WithoutAnySettingsShapesTell) {
  for (const int64_t bits : {2, 3, 4, 8}) {
    PackedModel model(Kind::kV1, {.bits = bits, .group_size = 16, .symmetric = true});
    model.packed().config.erase("quantization_config");
    EXPECT_TRUE(model.matches(*model.open()));
  }
}

// PK-19: either file serves; two that differ are an error.
TEST(PackedModel, SettingsStandInEitherFile) {
  PackedModel model(Kind::kV2, {.group_size = 16});
  json settings = model.settings();
  write_text(model.packed().path() / "quantize_config.json", settings.dump());
  EXPECT_TRUE(model.matches(*model.open()));
  model.packed().config.erase("quantization_config");
  EXPECT_TRUE(model.matches(*model.open()));
  const std::string fingerprint = model.open()->fingerprint();
  model.settings() = settings;
  settings["group_size"] = 32;
  write_text(model.packed().path() / "quantize_config.json", settings.dump());
  EXPECT_THAT(model.open_error(), AllOf(HasSubstr("quantize_config.json]"), HasSubstr("group size"),
                                        HasSubstr(", 16, got 32. Remove the file that is wrong")));
  model.packed().config.erase("quantization_config");
  EXPECT_THAT(model.open_error(), HasSubstr("expected shape"));
  settings["group_size"] = 16;
  settings["desc_act"] = nullptr;
  write_text(model.packed().path() / "quantize_config.json", settings.dump());
  EXPECT_NE(model.open()->fingerprint(), fingerprint);
}

// PK-21: the first rule that fits decides, in the order of the file; names are whole names.
TEST(PackedModel, RulesGiveLayersTheirOwnSettings) {
  PackedModel model(Kind::kV2, {.group_size = 16});
  const std::string block = "model.layers.0.";
  model.pack(block + "self_attn.v_proj.weight", {.bits = 8, .group_size = -1});
  model.leave_dense(block + "self_attn.o_proj.weight");
  write_text(model.packed().path() / "quantize_config.json",
             R"({"quant_method":"gptq","checkpoint_format":"gptq_v2","bits":4,"group_size":16,
                 "sym":false,"desc_act":false,
                 "dynamic":{"+:.*layers\\.0\\.self_attn\\.v_proj":{"bits":8,"group_size":-1},
                            "-:.*layers\\.0\\.self_attn\\.o_proj":{},
                            ".*self_attn.*":{"bits":4}}})");
  model.packed().config.erase("quantization_config");
  const auto opened = model.open();
  EXPECT_TRUE(model.matches(*opened));
  EXPECT_THAT(opened->notes(), ElementsAre(AllOf(HasSubstr("1 linears of blocks are dense in it"),
                                                 HasSubstr(block + "self_attn.o_proj.weight"))));
}

TEST(PackedModel, OlderWritersNamedTheFileAfterTheSettings) {
  PackedModel model(Kind::kV1);
  model.packed().write();
  const auto path = model.packed().path();
  std::filesystem::rename(path / "model.safetensors", path / "gptq_model-4bit-16g.safetensors");
  EXPECT_TRUE(model.matches(*open_model(path, {.dtype = "float32"})));
}

// PK-07, PK-23: zeros that older packers saved as bias are no bias; anything else must have a
// place.
TEST(PackedModel, BiasesOfZerosArePassedOver) {
  PackedModel model(Kind::kV1);
  at::Tensor& bias = model.tensors()["model.layers.0.self_attn.q_proj.bias"];
  bias = at::zeros({model.tensors().at("model.layers.0.self_attn.q_proj.scales").size(1)});
  const auto opened = model.open();
  EXPECT_TRUE(model.matches(*opened));
  EXPECT_THAT(opened->notes(), ElementsAre(HasSubstr("biases of all zeros")));
  bias[1] = 0.5;
  EXPECT_THAT(model.open_error(), HasSubstr("got also: model.layers.0.self_attn.q_proj.bias"));
}

TEST(PackedModel, TensorsThatAreMissingAreNamed) {
  PackedModel model(Kind::kV1);
  model.tensors().erase("model.layers.0.mlp.up_proj.qzeros");
  EXPECT_THAT(model.open_error(),
              HasSubstr("the checkpoint lacks: model.layers.0.mlp.up_proj.qzeros"));
  PackedModel ordered(Kind::kV2, {.group_size = 16, .act_order = true});
  ordered.tensors().erase("model.layers.0.mlp.up_proj.g_idx");
  EXPECT_THAT(ordered.open_error(),
              HasSubstr("the checkpoint lacks: model.layers.0.mlp.up_proj.g_idx"));
}

// As versions of compressed-tensors in the wild write the same.
TEST(PackedModel, OtherSpellingsOfCompressedTensorsAreRead) {
  PackedModel ordered(Kind::kCompressed, {.group_size = 16, .act_order = true});
  ordered.settings()["quantization_status"] = "frozen";
  ordered.settings()["config_groups"]["group_0"]["weights"]["actorder"] = "GROUP";
  EXPECT_TRUE(ordered.matches(*ordered.open()));
  PackedModel rows(Kind::kCompressed, {.group_size = -1, .symmetric = true});
  auto& weights = rows.settings()["config_groups"]["group_0"]["weights"];
  weights.erase("strategy");
  weights["group_size"] = -1;
  EXPECT_TRUE(rows.matches(*rows.open()));
}

TEST(PackedModel, WhatIsNotReadIsRefused) {
  const auto with = [](const char* key, const json& value) {
    PackedModel model(Kind::kV1);
    model.settings()[key] = value;
    return model.open_error();
  };
  EXPECT_THAT(with("quant_method", "awq"), HasSubstr("use the folder they were made from"));
  EXPECT_THAT(with("checkpoint_format", "marlin"), HasSubstr("got marlin"));
  EXPECT_THAT(with("checkpoint_format", "gptq_p"),
              HasSubstr("expected one of gptq, gptq_v2; got 'gptq_p'"));
  EXPECT_THAT(with("pack_dtype", "int64"), HasSubstr("'pack_dtype'"));
  EXPECT_THAT(with("bits", 5), HasSubstr("expected 2, 3, 4 or 8 bits, got 5"));
  EXPECT_THAT(with("bits", 8), HasSubstr("Bits or group size"));
  EXPECT_THAT(with("bits", uint64_t{1} << 63),
              HasSubstr("expected a whole number as 'bits', got 9223372036854775808"));
  EXPECT_THAT(with("dynamic", {{"+:.*up_proj", 5}}),
              HasSubstr("expected an object as rule '+:.*up_proj' of 'dynamic', got 5"));
  PackedModel ignoring(Kind::kCompressed);
  ignoring.settings()["ignore"] = "lm_head";
  EXPECT_THAT(ignoring.open_error(), HasSubstr("expected a list as 'ignore', got \"lm_head\""));
  PackedModel compressed(Kind::kCompressed);
  compressed.settings()["config_groups"]["group_0"]["input_activations"] = {{"num_bits", 8}};
  EXPECT_THAT(compressed.open_error(), HasSubstr("quantized activations"));
  EXPECT_THAT(PackedModel(Kind::kCompressed).open_error("gptq"),
              HasSubstr("as model.checkpoint_format says, got weight_packed"));
  EditedModel dense("llama_mha");
  dense.write();
  EXPECT_THAT(error_of([&] { open_model(dense.path(), {.checkpoint_format = "gptq"}); }),
              HasSubstr("got a dense folder. Leave the key out"));
  dense.config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}};
  EXPECT_THAT(dense.open_error(), HasSubstr("expected packed tensors (qweight or weight_packed)"));
}

}  // namespace
}  // namespace gptqb::test
