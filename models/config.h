// config.json of a Hugging Face folder, read so that nothing in it that changes the result is
// passed over.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace gptqb {

// Typed reading of one JSON object; every message names the file and the key. A key whose value is
// null counts as absent, as transformers treats it.
class ConfigReader {
 public:
  // Throws Error if the file is missing or no JSON object.
  explicit ConfigReader(const std::filesystem::path& path);
  ConfigReader(std::string where, nlohmann::json object);

  const std::string& where() const { return where_; }
  bool has(const std::string& key) const;

  // Each throws Error if the value has another type (or, for sizes, is not in 1 .. 2^31), and,
  // where there is no fallback, if the key is absent.
  int64_t size(const std::string& key) const;
  int64_t size(const std::string& key, int64_t fallback) const;
  double number(const std::string& key) const;
  double number(const std::string& key, double fallback) const;
  bool flag(const std::string& key, bool fallback) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  // First of a list, or the one number: eos_token_id comes as either. Empty if absent or negative.
  std::optional<int64_t> token_id(const std::string& key) const;
  // A nested object, with its own messages ("config.json, rope_scaling"); empty if absent.
  std::optional<ConfigReader> section(const std::string& key) const;

  // Throws Error naming key and value unless the key is absent or has exactly this value.
  void require(const std::string& key, const nlohmann::json& value, const std::string& why) const;

  const nlohmann::json& object() const { return object_; }

 private:
  const nlohmann::json& value(const std::string& key) const;

  std::string where_;
  nlohmann::json object_;
};

// What of a config decides who reads it and in which dtype; the architectures read the rest.
struct ModelIdentity {
  std::string model_type;            // "llama"
  std::optional<std::string> dtype;  // "float16", as `dtype` or `torch_dtype` names it
};

// Checks what holds for every architecture and returns the identity. Throws Error naming key and
// value: no model_type, a class in `architectures` that is no causal language model, model code of
// the folder's own (auto_map), and settings of relatives of the known architectures that change the
// result (scaled logits or residuals, softcaps, partial rotary positions, experts, sliding
// attention in some layers, ...).
ModelIdentity check_config(const ConfigReader& config);

}  // namespace gptqb
