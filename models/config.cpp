#include "models/config.h"

#include <utility>

#include "common/atomic_file.h"
#include "common/error.h"
#include "models/json.h"

namespace gptqb {
namespace {

using nlohmann::json;

constexpr int64_t kMaxSize = int64_t{1} << 31;

// Settings that relatives of LLaMA and OPT have, and the value at which they change nothing.
struct NeutralSetting {
  const char* key;
  json neutral;
};

const std::vector<NeutralSetting>& neutral_settings() {
  static const std::vector<NeutralSetting> settings = {
      {"partial_rotary_factor", 1.0},
      {"rotary_pct", 1.0},
      {"rope_interleaved", false},
      {"use_sliding_window", false},
      {"attention_multiplier", 1.0},
      {"embedding_multiplier", 1.0},
      {"residual_multiplier", 1.0},
      {"logits_scaling", 1.0},
      {"logit_scale", 1.0},
      {"scale_emb", 1.0},
      {"scale_depth", 1.0},
      {"clip_qkv", nullptr},
      {"attn_logit_softcapping", nullptr},
      {"final_logit_softcapping", nullptr},
      {"query_pre_attn_scalar", nullptr},
      {"qk_layernorm", false},
      {"use_qk_norm", false},
      {"qkv_bias", false},
      {"use_qkv_bias", false},
      {"alibi", false},
      {"use_alibi", false},
      {"use_parallel_residual", false},
      {"no_rope_layers", nullptr},
      {"no_rope_layer_interval", nullptr},
      {"num_experts", 0},
      {"num_local_experts", 0},
      {"attention_chunk_size", nullptr},
      {"add_cross_attention", false},
      {"is_encoder_decoder", false},
  };
  return settings;
}

}  // namespace

ConfigReader::ConfigReader(const std::filesystem::path& path)
    : ConfigReader(path.string(), parse_json_object(read_file(path), path.string())) {}

ConfigReader::ConfigReader(std::string where, json object)
    : where_(std::move(where)), object_(std::move(object)) {}

bool ConfigReader::has(const std::string& key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

const json& ConfigReader::value(const std::string& key) const {
  if (!has(key)) throw Error(where_, "expected a key '" + key + "', got none");
  return object_.at(key);
}

int64_t ConfigReader::size(const std::string& key) const {
  const json& found = value(key);
  if (!found.is_number_integer() || found < 1 || found > kMaxSize)
    throw Error(where_,
                "expected a whole number of at least 1 as '" + key + "', got " + found.dump());
  return found.get<int64_t>();
}

int64_t ConfigReader::size(const std::string& key, int64_t fallback) const {
  return has(key) ? size(key) : fallback;
}

double ConfigReader::number(const std::string& key) const {
  const json& found = value(key);
  if (!found.is_number())
    throw Error(where_, "expected a number as '" + key + "', got " + found.dump());
  return found.get<double>();
}

double ConfigReader::number(const std::string& key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

bool ConfigReader::flag(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  const json& found = value(key);
  if (!found.is_boolean())
    throw Error(where_, "expected true or false as '" + key + "', got " + found.dump());
  return found.get<bool>();
}

std::string ConfigReader::text(const std::string& key, const std::string& fallback) const {
  if (!has(key)) return fallback;
  const json& found = value(key);
  if (!found.is_string())
    throw Error(where_, "expected text as '" + key + "', got " + found.dump());
  return found.get<std::string>();
}

std::optional<int64_t> ConfigReader::token_id(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  const json* found = &value(key);
  if (found->is_array() && !found->empty()) found = &found->front();
  if (!found->is_number_integer())
    throw Error(where_, "expected a token id as '" + key + "', got " + value(key).dump());
  const auto id = found->get<int64_t>();
  return id < 0 ? std::nullopt : std::optional(id);
}

std::optional<ConfigReader> ConfigReader::section(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  const json& found = value(key);
  if (!found.is_object())
    throw Error(where_, "expected an object as '" + key + "', got " + found.dump());
  return ConfigReader(where_ + ", " + key, found);
}

void ConfigReader::require(const std::string& key, const json& wanted,
                           const std::string& why) const {
  if (has(key) && object_.at(key) != wanted)
    throw Error(where_, "expected '" + key + "' absent or " + wanted.dump() + ", got " +
                            object_.at(key).dump() + ". " + why);
}

ModelIdentity check_config(const ConfigReader& config) {
  const std::string& where = config.where();
  ModelIdentity identity;
  identity.model_type = config.text("model_type", "");
  if (identity.model_type.empty())
    throw Error(where, "expected a key 'model_type' that names the architecture, got none");

  if (config.has("architectures")) {
    const json& classes = config.object().at("architectures");
    bool causal = false;
    if (classes.is_array())
      for (const json& name : classes)
        causal = causal ||
                 (name.is_string() && name.get_ref<const std::string&>().ends_with("ForCausalLM"));
    if (!causal)
      throw Error(where, "expected a class that ends in ForCausalLM in 'architectures', got " +
                             classes.dump() + ": this is no causal language model.");
  }
  if (config.has("auto_map") && config.object().at("auto_map").is_object() &&
      config.object().at("auto_map").contains("AutoModelForCausalLM"))
    throw Error(where,
                "expected a known architecture, got model code of the folder's own ('auto_map'), "
                "which this "
                "program does not run.");
  for (const auto& [key, neutral] : neutral_settings())
    config.require(key, neutral, "It changes the result, and this program does not compute it.");
  if (config.has("layer_types")) {
    const json& types = config.object().at("layer_types");
    for (const json& type : types)
      if (type != "full_attention")
        throw Error(where, "expected only full_attention in 'layer_types', got " + type.dump() +
                               ". It changes the result, and this program does not compute it.");
  }
  for (const char* key : {"dtype", "torch_dtype"})
    if (!identity.dtype && config.has(key)) identity.dtype = config.text(key, "");
  return identity;
}

}  // namespace gptqb
