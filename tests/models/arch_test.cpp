// Properties of single architectures that goldens would only show as one wrong number.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/models/model_folder.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;

// ML-04: the table has two leading rows; position 0 is row 2.
TEST(Opt, PositionZeroIsRowTwo) {
  EditedModel edited("opt_pre_norm");
  edited.config["max_position_embeddings"] = 4;
  edited.tensors["model.decoder.embed_positions.weight"] =
      at::arange(6, at::kFloat).unsqueeze(1).expand({6, 32});
  edited.tensors["model.decoder.embed_tokens.weight"] = at::zeros({48, 32});
  const auto model = edited.open();
  const at::Tensor hidden = model->embed(at::ones({2, 4}, at::kLong));
  for (int64_t sequence = 0; sequence < 2; ++sequence)
    for (int64_t position = 0; position < 4; ++position)
      EXPECT_TRUE(at::equal(hidden[sequence][position],
                            at::full({32}, 2.0 + static_cast<double>(position))));
  EXPECT_THAT(error_of([&] {
                model->embed(at::ones({1, 5}, at::kLong));
              }),
              HasSubstr("expected at most 4 tokens"));
}

// ML-03: what a driver may quantize leaves the 350M variant's projections out.
TEST(Opt, ProjectionsAreNotLinearsOfABlock) {
  const auto model = open_model(golden_folder("opt_350m"), {"float32", at::kCPU});
  for (const Stage& stage : model->stages())
    for (const std::string& linear : stage.linears)
      EXPECT_THAT(linear, ::testing::Not(HasSubstr("project")));
  EXPECT_EQ(model->embed(at::ones({1, 3}, at::kLong)).size(2), 32);
}

TEST(Opt, FinalNormMayBeRemoved) {
  EditedModel edited("opt_pre_norm");
  EXPECT_EQ(edited.open_error(), "");
  edited.config["_remove_final_layer_norm"] = true;
  EXPECT_THAT(edited.open_error(), HasSubstr("got also: model.decoder.final_layer_norm.bias"));
  edited.tensors.erase("model.decoder.final_layer_norm.bias");
  edited.tensors.erase("model.decoder.final_layer_norm.weight");
  const auto model = edited.open();
  const at::Tensor hidden = at::arange(32, at::kFloat).reshape({1, 1, 32});
  const at::Tensor head = edited.tensors["model.decoder.embed_tokens.weight"].to(at::kFloat);
  EXPECT_TRUE(at::allclose(model->logits(hidden)[0][0], at::mv(head, hidden[0][0]), 1e-5, 1e-4));
}

// ML-09: activations of 1e-3, where an epsilon of 1e-5 outweighs their square.
TEST(Llama, NormEpsilonIsTheConfigs) {
  for (const double epsilon : {1e-5, 1e-6}) {
    EditedModel edited("llama_mha");
    edited.config["rms_norm_eps"] = epsilon;
    const auto model = edited.open();
    model->load_block(0);
    const at::Tensor hidden = at::full({1, 1, 32}, 1e-3);
    const at::Tensor normed = model->begin(hidden).input[0][0];
    const double expected = 1e-3 / std::sqrt(1e-6 + epsilon);
    const at::Tensor scale = edited.tensors["model.layers.0.input_layernorm.weight"];
    EXPECT_TRUE(at::allclose(normed, scale * expected, 1e-5, 0.0)) << epsilon;
  }
}

// ML-01: grouped keys and values equal the same model with its k and v rows repeated per query
// head.
TEST(Llama, GroupedHeadsEqualRepeatedHeads) {
  for (const char* variant : {"llama_one_kv_head", "llama_linear"}) {
    const auto grouped = open_model(golden_folder(variant), {"float32", at::kCPU});
    EditedModel repeated(variant);
    const auto kv_heads = repeated.config["num_key_value_heads"].get<int64_t>();
    for (auto& [name, tensor] : repeated.tensors)
      if (name.find("k_proj") != std::string::npos || name.find("v_proj") != std::string::npos)
        tensor = tensor.view({kv_heads, 1, 8, 32})
                     .expand({kv_heads, 4 / kv_heads, 8, 32})
                     .reshape({32, 32})
                     .clone();
    repeated.config["num_key_value_heads"] = 4;
    const at::Tensor ids = (at::arange(20, at::kLong) * 11).remainder(48).unsqueeze(0);
    EXPECT_LT(largest_difference(run_model(*grouped, ids), run_model(*repeated.open(), ids)), 1e-4)
        << variant;
  }
}

}  // namespace
}  // namespace gptqb::test
