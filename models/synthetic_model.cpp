#include "models/synthetic_model.h"

#include "common/error.h"
#include "common/text.h"
#include "models/published_shapes.h"

namespace gptqb {
namespace {

using nlohmann::json;

int64_t or_else(int64_t value, int64_t usual) { return value > 0 ? value : usual; }

void require_size(int64_t value, const char* key, const std::string& architecture) {
  if (value <= 0)
    throw Error(std::string("model.synthetic.") + key,
                "expected a size for architecture " + architecture +
                    ", got none. Give it, or `like` with the name of a published model");
}

json sized_config(const SyntheticModel& model) {
  require_size(model.hidden_size, "hidden_size", model.architecture);
  require_size(model.heads, "heads", model.architecture);
  require_size(model.layers, "layers", model.architecture);
  if (model.kv_heads > 0 && model.architecture != "llama")
    throw Error("model.synthetic.kv_heads",
                "expected it with architecture llama only, got " + model.architecture);
  if (model.architecture == "opt")
    return {{"model_type", "opt"},
            {"vocab_size", or_else(model.vocab_size, 50272)},
            {"hidden_size", model.hidden_size},
            {"ffn_dim", or_else(model.intermediate_size, 4 * model.hidden_size)},
            {"num_hidden_layers", model.layers},
            {"num_attention_heads", model.heads},
            {"max_position_embeddings", 2048},
            {"activation_function", "relu"},
            {"torch_dtype", "float16"}};
  if (model.architecture == "bloom")
    return {{"model_type", "bloom"},
            {"vocab_size", or_else(model.vocab_size, 250880)},
            {"hidden_size", model.hidden_size},
            {"n_inner", or_else(model.intermediate_size, 4 * model.hidden_size)},
            {"n_layer", model.layers},
            {"n_head", model.heads},
            {"layer_norm_epsilon", 1e-5},
            {"torch_dtype", "float16"}};
  if (model.architecture != "llama")
    throw Error("model.synthetic.architecture",
                unknown_name(model.architecture, {"llama", "opt", "bloom"}));
  require_size(model.intermediate_size, "intermediate_size", model.architecture);
  return {{"model_type", "llama"},
          {"vocab_size", or_else(model.vocab_size, 32000)},
          {"hidden_size", model.hidden_size},
          {"intermediate_size", model.intermediate_size},
          {"num_hidden_layers", model.layers},
          {"num_attention_heads", model.heads},
          {"num_key_value_heads", or_else(model.kv_heads, model.heads)},
          {"max_position_embeddings", 4096},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", false},
          {"torch_dtype", "float16"}};
}

}  // namespace

std::string SyntheticModel::name() const {
  const std::string part = layers > 0 ? " x " + std::to_string(layers) : "";
  const std::string codes =
      packed_bits > 0 ? ", " + std::to_string(packed_bits) + " bits" +
                            (packed_group_size > 0 ? " g" + std::to_string(packed_group_size) : "")
                      : "";
  return (like.empty() ? architecture + " " + std::to_string(hidden_size) : like) + part + codes;
}

std::optional<QuantConfig> SyntheticModel::packed() const {
  if (packed_bits == 0) {
    if (packed_group_size != -1)
      throw Error("model.synthetic.packed.group_size",
                  "expected it with model.synthetic.packed.bits, got it alone");
    return std::nullopt;
  }
  QuantConfig config;
  config.bits = packed_bits;
  config.group_size = packed_group_size;
  config.symmetric = true;
  config.validate("model.synthetic.packed");
  return config;
}

json SyntheticModel::config() const {
  if (like.empty()) return sized_config(*this);
  if (hidden_size + intermediate_size + heads + kv_heads + vocab_size > 0 || !architecture.empty())
    throw Error("model.synthetic.like",
                "expected it alone or an architecture with sizes, got both. A published shape has "
                "its own; `layers` may shorten it");
  json config = published_config(like);
  if (layers > 0)
    for (const char* key : {"num_hidden_layers", "n_layer"})
      if (config.contains(key)) config[key] = layers;
  return config;
}

}  // namespace gptqb
