#include "models/config.h"

#include <gmock/gmock.h>

#include "tests/models/model_folder.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_with(const std::string& variant, const std::string& key,
                       const nlohmann::json& value) {
  EditedModel model(variant);
  model.config[key] = value;
  return model.open_error();
}

TEST(Config, UnknownArchitecturesAreRefusedByName) {
  EXPECT_THAT(
      error_with("llama_mha", "model_type", "lama"),
      AllOf(HasSubstr("config.json"),
            HasSubstr(
                "expected one of llama, mistral, opt, bloom; got 'lama'. Did you mean 'llama'?")));
  EXPECT_THAT(error_with("llama_mha", "model_type", "qwen2"), HasSubstr("got 'qwen2'"));
  EXPECT_THAT(error_with("llama_mha", "model_type", nullptr),
              HasSubstr("expected a key 'model_type'"));
  EXPECT_THAT(
      error_with("llama_mha", "architectures", {"LlamaForSequenceClassification"}),
      HasSubstr("got [\"LlamaForSequenceClassification\"]: this is no causal language model"));
}

TEST(Config, ValuesThatChangeTheResultAreRefusedByName) {
  const std::vector<std::pair<std::string, nlohmann::json>> settings = {
      {"hidden_act", "gelu"},
      {"partial_rotary_factor", 0.5},
      {"rope_interleaved", true},
      {"use_sliding_window", true},
      {"attention_multiplier", 0.1},
      {"logits_scaling", 8.0},
      {"logit_scale", 0.06},
      {"final_logit_softcapping", 30.0},
      {"no_rope_layers", nlohmann::json::array({1, 1, 0})},
      {"num_local_experts", 8},
      {"rope_parameters", {{"rope_type", "longrope"}}},
  };
  for (const auto& [key, value] : settings) {
    EXPECT_THAT(error_with("llama_mha", key, value), HasSubstr(key)) << key;
  }
  EXPECT_THAT(
      error_with("llama_mha", "layer_types", {"full_attention", "sliding_attention"}),
      HasSubstr("expected only full_attention in 'layer_types', got \"sliding_attention\""));
  EXPECT_EQ(error_with("llama_mha", "layer_types", {"full_attention", "full_attention"}), "");
  EXPECT_THAT(error_with("llama_mha", "quantization_config", {{"quant_method", "awq"}}),
              HasSubstr("quant_method: expected one of gptq, compressed-tensors; got 'awq'"));
  EXPECT_THAT(error_with("llama_mha", "auto_map", {{"AutoModelForCausalLM", "modeling.Other"}}),
              HasSubstr("model code of the folder's own ('auto_map')"));
  EXPECT_THAT(error_with("opt_pre_norm", "activation_function", "gelu"),
              HasSubstr("expected 'activation_function' absent or \"relu\", got \"gelu\""));
  EXPECT_THAT(error_with("mistral", "attention_bias", true),
              HasSubstr("Mistral's layers have no biases"));
  EXPECT_EQ(error_with("llama_mha", "pretraining_tp", 4), "");
  EXPECT_EQ(error_with("llama_mha", "is_llama_config", true), "");
}

TEST(Config, MalformedValuesAreNamed) {
  EXPECT_THAT(error_with("llama_mha", "hidden_size", "32"),
              HasSubstr("expected a whole number of at least 1 as 'hidden_size', got \"32\""));
  EXPECT_THAT(error_with("llama_mha", "hidden_size", nullptr),
              HasSubstr("expected a key 'hidden_size', got none"));
  EXPECT_THAT(error_with("llama_mha", "num_hidden_layers", 0),
              HasSubstr("at least 1 as 'num_hidden_layers', got 0"));
  EXPECT_THAT(error_with("llama_mha", "vocab_size", 1e30), HasSubstr("'vocab_size'"));
  EXPECT_THAT(
      error_with("llama_mha", "num_key_value_heads", 3),
      HasSubstr("expected num_attention_heads a multiple of num_key_value_heads, got 4 and 3"));
  EXPECT_THAT(error_with("llama_mha", "head_dim", 7),
              HasSubstr("expected an even head_dim, got 7"));
  EXPECT_THAT(error_with("llama_mha", "tie_word_embeddings", "no"),
              HasSubstr("expected true or false as 'tie_word_embeddings'"));
  EXPECT_THAT(error_with("opt_pre_norm", "num_attention_heads", 5),
              HasSubstr("expected hidden_size a multiple of num_attention_heads"));
  EditedModel broken("llama_mha");
  broken.write();
  write_text(broken.path() / "config.json", "{\"model_type\": \"llama\", \"model_type\": \"opt\"}");
  EXPECT_THAT(error_of([&] { open_model(broken.path(), {}); }),
              HasSubstr("duplicate 'model_type'"));
  std::filesystem::remove(broken.path() / "config.json");
  EXPECT_THAT(error_of([&] { open_model(broken.path(), {}); }),
              HasSubstr("expected config.json in this folder"));
  EXPECT_THAT(error_of([&] { open_model(broken.path() / "none", {}); }),
              HasSubstr("expected a model folder"));
}

// ML-09: no default stands in for the published epsilon.
TEST(Config, NormEpsilonMustBeStated) {
  EXPECT_THAT(error_with("llama_mha", "rms_norm_eps", nullptr),
              HasSubstr("expected a key 'rms_norm_eps', got none"));
}

TEST(Config, BloomSettingsThatChangeTheResult) {
  EXPECT_THAT(error_with("bloom_6_heads", "n_embed", 32),
              HasSubstr("expected 'hidden_size' and 'n_embed' to agree, two names of one size, got "
                        "24 and 32"));
  EXPECT_THAT(error_with("bloom_6_heads", "num_attention_heads", 4), HasSubstr("'n_head'"));
  EXPECT_THAT(error_with("bloom_6_heads", "n_head", 5),
              HasSubstr("expected hidden_size a multiple of n_head, got 24 and 5"));
  EXPECT_THAT(error_with("bloom_6_heads", "n_head", nullptr), HasSubstr("expected a key 'n_head'"));
  EXPECT_THAT(error_with("bloom_6_heads", "n_inner", 48),
              HasSubstr("expected 'n_inner' absent or 96, got 48"));
  EXPECT_THAT(error_with("bloom_6_heads", "layer_norm_epsilon", nullptr),
              HasSubstr("expected a key 'layer_norm_epsilon'"));
  // Only together do they change the arithmetic.
  EditedModel sliced("bloom_6_heads");
  sliced.config["slow_but_exact"] = true;
  EXPECT_EQ(sliced.open_error(), "");
  sliced.config["pretraining_tp"] = 4;
  EXPECT_THAT(sliced.open_error(),
              HasSubstr("expected 'slow_but_exact' absent or false, got true"));
  EXPECT_EQ(error_with("bloom_6_heads", "pretraining_tp", 4), "");
  EXPECT_EQ(error_with("bloom_6_heads", "n_inner", 96), "");
  EXPECT_EQ(error_with("bloom_6_heads", "hidden_dropout", 0.1), "");
  EXPECT_EQ(error_with("bloom_6_heads", "attention_softmax_in_fp32", true), "");
}

TEST(Config, TokenIdsComeAsNumberOrList) {
  EditedModel model("llama_mha");
  model.config["eos_token_id"] = {7, 8};
  model.config["bos_token_id"] = nullptr;
  EXPECT_EQ(model.open()->eos_token_id(), 7);
  EXPECT_EQ(model.open()->bos_token_id(), std::nullopt);
}

TEST(Config, PositionsAreLimitedByTheSlidingWindow) {
  EXPECT_EQ(open_model(golden_folder("mistral"), {})->max_positions(), 48);
  EditedModel model("mistral");
  model.config["sliding_window"] = nullptr;
  EXPECT_EQ(model.open()->max_positions(), 64);
}

TEST(Config, DtypeIsTheConfigsOrTheTensors) {
  EditedModel model("llama_bf16_sharded");
  EXPECT_EQ(model.open("auto")->dtype(), at::kBFloat16);
  EXPECT_EQ(model.open("float16")->dtype(), at::kHalf);
  model.config.erase("dtype");
  EXPECT_EQ(model.open("auto")->dtype(), at::kBFloat16);
  model.config["torch_dtype"] = "float32";
  EXPECT_EQ(model.open("auto")->dtype(), at::kFloat);
  EXPECT_THAT(
      model.open_error("float8"),
      HasSubstr("[model.dtype] expected one of auto, float16, bfloat16, float32; got 'float8'"));
  model.config.erase("torch_dtype");
  model.tensors["model.norm.weight"] = model.tensors["model.norm.weight"].to(at::kFloat);
  EXPECT_THAT(model.open_error("auto"),
              HasSubstr("expected one dtype in all tensors or 'dtype' in config.json"));
  EXPECT_EQ(model.open_error("bfloat16"), "");
}

}  // namespace
}  // namespace gptqb::test
