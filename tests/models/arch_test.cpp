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

// A block whose attention sees hand-made weights: query_key_value is zero until a test sets parts
// of it.
struct BareBloom : EditedModel {
  BareBloom(int64_t heads, int64_t hidden) : EditedModel("bloom_8_heads") {
    config["n_head"] = heads;
    config["hidden_size"] = hidden;
    for (auto& [name, tensor] : tensors) {
      std::vector<int64_t> shape = tensor.sizes().vec();
      for (int64_t& size : shape)
        if (size % 32 == 0) size = size / 32 * hidden;
      tensor = at::zeros(shape, at::kFloat);
    }
  }
};

constexpr const char* kFused = "transformer.h.0.self_attention.query_key_value.";

// What stage 0 puts out for inputs [seqlen, hidden]: the input of `dense` [seqlen, hidden].
at::Tensor bloom_attention(const EditedModel& edited, const at::Tensor& input) {
  const auto model = edited.open();
  model->load_block(0);
  BlockActivations activations{input.unsqueeze(0), input.unsqueeze(0)};
  model->run_stage(0, activations);
  return activations.input[0];
}

// ML-06: with q = k = 0 only the bias is left in the scores, and values that are unit vectors of
// the position show each share. Slopes as printed in the ALiBi paper: 2^(-8 i / n) for n = 8 heads;
// for 6 those of 4 heads, then the first and third of 8.
TEST(Bloom, SharesFallByTheAlibiSlopes) {
  const std::map<int64_t, std::vector<double>> slopes = {
      {8, {1 / 2., 1 / 4., 1 / 8., 1 / 16., 1 / 32., 1 / 64., 1 / 128., 1 / 256.}},
      {6, {1 / 4., 1 / 16., 1 / 64., 1 / 256., 1 / 2., 1 / 8.}}};
  for (const auto& [heads, expected] : slopes) {
    BareBloom edited(heads, 4 * heads);
    at::Tensor weight = edited.tensors[std::string(kFused) + "weight"];
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t i = 0; i < 4; ++i) weight[12 * head + 8 + i][i] = 1;
    const at::Tensor shares = bloom_attention(edited, at::eye(4, 4 * heads));
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t query = 0; query < 4; ++query) {
        double sum = 0;
        for (int64_t key = 0; key <= query; ++key)
          sum += std::exp(-expected[static_cast<size_t>(head)] * static_cast<double>(query - key));
        for (int64_t key = 0; key < 4; ++key) {
          const double share = key > query ? 0
                                           : std::exp(-expected[static_cast<size_t>(head)] *
                                                      static_cast<double>(query - key)) /
                                                 sum;
          EXPECT_NEAR(shares[query][4 * head + key].item<double>(), share, 1e-6)
              << heads << " heads, head " << head << ", query " << query << ", key " << key;
        }
      }
  }
}

// ML-07: 2 heads of size 2, rows 0 .. 11 of the fused weight. Head 0 has q, k, v in rows 0-1, 2-3,
// 4-5 and head 1 in rows 6-7, 8-9, 10-11; three equal slabs would give other values.
TEST(Bloom, FusedRowsAreTriplesOfEachHead) {
  BareBloom edited(2, 4);
  at::Tensor weight = edited.tensors[std::string(kFused) + "weight"];
  at::Tensor bias = edited.tensors[std::string(kFused) + "bias"];
  bias[0] = 3;       // q of head 0
  weight[2][0] = 1;  // k of head 0: the input's first column
  for (int64_t row : {4, 5, 10, 11}) bias[row] = static_cast<double>(row);
  weight[4][1] = 1;   // v of head 0: the second column, beside its bias
  bias[7] = -2;       // q of head 1, second half
  weight[9][2] = 1;   // k of head 1: the third column
  weight[11][3] = 1;  // v of head 1: the fourth
  const at::Tensor input =
      at::tensor({0.5f, 1.0f, 0.25f, 2.0f, -0.5f, 4.0f, 1.0f, -3.0f}).view({2, 4});
  const at::Tensor out = bloom_attention(edited, input);
  const auto share = [](double score0, double score1) {
    return std::exp(score1) / (std::exp(score0) + std::exp(score1));
  };
  // Slopes of 2 heads: 2^-4 and 2^-8.
  const double first = share(3 * 0.5 / std::sqrt(2), 3 * -0.5 / std::sqrt(2) + 1 / 16.);
  const double second = share(-2 * 0.25 / std::sqrt(2), -2 * 1.0 / std::sqrt(2) + 1 / 256.);
  const std::vector<double> expected = {4 + 1 + first * (4 - 1), 5, 10, 11 + 2 + second * (-3 - 2)};
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_NEAR(out[1][i].item<double>(), expected[static_cast<size_t>(i)], 1e-5) << i;
}

// Values of transformers' bloom_gelu_forward in float16, which numpy's float16 arithmetic gives
// step by step too; torch's fused gelu rounds once and differs in 6 of the 11.
TEST(Bloom, GeluRoundsEachStep) {
  const std::vector<double> inputs = {
      -6,           -3,         -1.7001953125, -1, -0.300048828125, 0.0999755859375, 0.7001953125,
      1.2998046875, 2.19921875, 3.099609375,   6};
  const std::vector<double> expected = {0,
                                        -0.003662109375,
                                        -0.07598876953125,
                                        -0.158935546875,
                                        -0.1146240234375,
                                        0.053985595703125,
                                        0.53076171875,
                                        1.173828125,
                                        2.169921875,
                                        3.095703125,
                                        6};
  EditedModel edited("bloom_8_heads");
  edited.tensors["transformer.h.0.mlp.dense_h_to_4h.weight"] = at::zeros({128, 32}, at::kHalf);
  at::Tensor bias = at::zeros({128}, at::kHalf);
  for (size_t i = 0; i < inputs.size(); ++i) bias[static_cast<int64_t>(i)] = inputs[i];
  edited.tensors["transformer.h.0.mlp.dense_h_to_4h.bias"] = bias;
  const auto model = edited.open("float16");
  model->load_block(0);
  BlockActivations activations{at::ones({1, 1, 32}, at::kHalf), at::ones({1, 1, 32}, at::kHalf)};
  model->run_stage(2, activations);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(activations.input[0][0][static_cast<int64_t>(i)].item<double>(), expected[i])
        << inputs[i];
}

// ML-05: the published conversions leave the leading "transformer." away.
TEST(Bloom, BothPrefixesAreTheSameModel) {
  EditedModel edited("bloom_6_heads");
  const at::Tensor ids = (at::arange(20, at::kLong) * 11).remainder(48).unsqueeze(0);
  const at::Tensor with_prefix = run_model(*edited.open(), ids);
  std::map<std::string, at::Tensor> renamed;
  for (const auto& [name, tensor] : edited.tensors) {
    ASSERT_TRUE(name.starts_with("transformer.")) << name;
    renamed[name.substr(12)] = tensor;
  }
  edited.tensors = renamed;
  EXPECT_TRUE(at::equal(run_model(*edited.open(), ids), with_prefix));
}

TEST(Bloom, OldAndNewSpellingsAreTheSameModel) {
  EditedModel edited("bloom_6_heads");
  const at::Tensor ids = (at::arange(20, at::kLong) * 11).remainder(48).unsqueeze(0);
  const at::Tensor expected = run_model(*edited.open(), ids);
  for (const auto& [spelled, other] :
       std::map<std::string, std::string>{{"hidden_size", "n_embed"},
                                          {"n_layer", "num_hidden_layers"},
                                          {"n_head", "num_attention_heads"}}) {
    edited.config[other] = edited.config[spelled];
    EXPECT_EQ(edited.open_error(), "") << "both spellings: " << other;
    edited.config.erase(spelled);
  }
  EXPECT_TRUE(at::equal(run_model(*edited.open(), ids), expected));
  EXPECT_EQ(edited.open()->max_positions(), 2048);
  edited.config["seq_length"] = 30;
  EXPECT_EQ(edited.open()->max_positions(), 30);
}

}  // namespace
}  // namespace gptqb::test
