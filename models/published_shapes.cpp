#include "models/published_shapes.h"

#include "common/error.h"
#include "common/text.h"

namespace gptqb {
namespace {

using nlohmann::json;

// OPT (Zhang et al. 2022, table 1): inner width 4 times the hidden one, 2048 positions.
struct OptShape {
  const char* name;
  int64_t hidden, layers, heads;
};
constexpr OptShape kOpt[] = {
    {"opt-125m", 768, 12, 12},  {"opt-350m", 1024, 24, 16}, {"opt-1.3b", 2048, 24, 32},
    {"opt-2.7b", 2560, 32, 32}, {"opt-6.7b", 4096, 32, 32}, {"opt-13b", 5120, 40, 40},
    {"opt-30b", 7168, 48, 56},  {"opt-66b", 9216, 64, 72},  {"opt-175b", 12288, 96, 96}};

json opt_config(const OptShape& shape) {
  // The 350M model normalizes after each sub-layer and embeds half as wide.
  const bool odd_one = std::string(shape.name) == "opt-350m";
  return {{"model_type", "opt"},
          {"vocab_size", 50272},
          {"hidden_size", shape.hidden},
          {"word_embed_proj_dim", odd_one ? 512 : shape.hidden},
          {"ffn_dim", 4 * shape.hidden},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"max_position_embeddings", 2048},
          {"do_layer_norm_before", !odd_one},
          {"activation_function", "relu"},
          {"tie_word_embeddings", true},
          {"torch_dtype", "float16"}};
}

// BLOOM (BigScience 2022, table 3).
struct BloomShape {
  const char* name;
  int64_t hidden, layers, heads;
};
constexpr BloomShape kBloom[] = {{"bloom-560m", 1024, 24, 16}, {"bloom-1b1", 1536, 24, 16},
                                 {"bloom-1b7", 2048, 24, 16},  {"bloom-3b", 2560, 30, 32},
                                 {"bloom-7b1", 4096, 30, 32},  {"bloom-176b", 14336, 70, 112}};

json bloom_config(const BloomShape& shape) {
  return {{"model_type", "bloom"},   {"vocab_size", 250880},    {"hidden_size", shape.hidden},
          {"n_layer", shape.layers}, {"n_head", shape.heads},   {"layer_norm_epsilon", 1e-5},
          {"seq_length", 2048},      {"torch_dtype", "float16"}};
}

// LLaMA 1 to 3 (Touvron et al. 2023; Llama 3 model card).
struct LlamaShape {
  const char* name;
  int64_t hidden, intermediate, layers, heads, kv_heads, vocab, positions;
  double epsilon, theta;
};
constexpr LlamaShape kLlama[] = {{"llama-7b", 4096, 11008, 32, 32, 32, 32000, 2048, 1e-6, 1e4},
                                 {"llama-13b", 5120, 13824, 40, 40, 40, 32000, 2048, 1e-6, 1e4},
                                 {"llama-30b", 6656, 17920, 60, 52, 52, 32000, 2048, 1e-6, 1e4},
                                 {"llama-65b", 8192, 22016, 80, 64, 64, 32000, 2048, 1e-5, 1e4},
                                 {"llama-2-7b", 4096, 11008, 32, 32, 32, 32000, 4096, 1e-5, 1e4},
                                 {"llama-2-13b", 5120, 13824, 40, 40, 40, 32000, 4096, 1e-5, 1e4},
                                 {"llama-2-70b", 8192, 28672, 80, 64, 8, 32000, 4096, 1e-5, 1e4},
                                 {"llama-3-8b", 4096, 14336, 32, 32, 8, 128256, 8192, 1e-5, 5e5},
                                 {"llama-3-70b", 8192, 28672, 80, 64, 8, 128256, 8192, 1e-5, 5e5}};

json llama_config(const LlamaShape& shape) {
  return {{"model_type", "llama"},
          {"vocab_size", shape.vocab},
          {"hidden_size", shape.hidden},
          {"intermediate_size", shape.intermediate},
          {"num_hidden_layers", shape.layers},
          {"num_attention_heads", shape.heads},
          {"num_key_value_heads", shape.kv_heads},
          {"max_position_embeddings", shape.positions},
          {"rms_norm_eps", shape.epsilon},
          {"rope_theta", shape.theta},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", false},
          {"torch_dtype", "float16"}};
}

}  // namespace

std::vector<std::string> published_shapes() {
  std::vector<std::string> names;
  for (const auto& shape : kOpt) names.emplace_back(shape.name);
  for (const auto& shape : kBloom) names.emplace_back(shape.name);
  for (const auto& shape : kLlama) names.emplace_back(shape.name);
  return names;
}

json published_config(const std::string& name) {
  for (const auto& shape : kOpt)
    if (name == shape.name) return opt_config(shape);
  for (const auto& shape : kBloom)
    if (name == shape.name) return bloom_config(shape);
  for (const auto& shape : kLlama)
    if (name == shape.name) return llama_config(shape);
  throw Error("model.synthetic.like", unknown_name(name, published_shapes()));
}

}  // namespace gptqb
