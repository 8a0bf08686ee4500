#include "models/packed_config.h"

#include <cctype>
#include <limits>
#include <utility>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/text.h"
#include "models/json.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const char* const kSettings = "quantization_config";
const char* const kModules = "modules_in_block_to_quantize";

void check_bits(const PackedLayer& layer, const std::string& where) {
  if (layer.bits != 2 && layer.bits != 3 && layer.bits != 4 && layer.bits != 8)
    throw Error(where, "expected 2, 3, 4 or 8 bits, got " + std::to_string(layer.bits));
  if (layer.group_size == 0 || layer.group_size < -1)
    throw Error(where, "expected a group size of -1 or at least 1, got " +
                           std::to_string(layer.group_size));
}

// A whole number, whose key some writers spell in another way.
int64_t whole(const ConfigReader& config, const char* key, const char* synonym, int64_t fallback) {
  for (const char* name : {key, synonym}) {
    if (name == nullptr || !config.has(name)) continue;
    const json& value = config.object().at(name);
    // As an unsigned number beyond int64 would come back negative.
    const bool beyond = value.is_number_unsigned() &&
                        value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
    if (!value.is_number_integer() || beyond)
      throw Error(config.where(),
                  std::string("expected a whole number as '") + name + "', got " + value.dump());
    return value.get<int64_t>();
  }
  return fallback;
}

// --- gptq ---

PackedFormat gptq_format(const ConfigReader& config, bool& labelled) {
  const std::string label = config.text("checkpoint_format", config.text("format", ""));
  if (config.has("format")) config.require("format", label, "The folder names two formats.");
  labelled = !label.empty();
  if (config.flag("is_marlin_format", false) || label == "marlin")
    throw Error(config.where(),
                "expected the checkpoint format gptq or gptq_v2, got marlin, whose "
                "tiles only that kernel reads. Use the folder it was made from");
  if (label.empty() || label == "gptq") return PackedFormat::kGptq;
  if (label == "gptq_v2") return PackedFormat::kGptqV2;
  throw Error(config.where(), "checkpoint_format: " + unknown_name(label, {"gptq", "gptq_v2"}));
}

// `base` with what `config` sets.
PackedLayer gptq_layer(const ConfigReader& config, PackedLayer base) {
  if (!config.has("bits") && !config.has("w_bit") && base.bits == 0)
    throw Error(config.where(), "expected a key 'bits', got none");
  base.bits = whole(config, "bits", "w_bit", base.bits);
  base.group_size = whole(config, "group_size", "q_group_size", base.group_size);
  base.symmetric = config.flag("sym", base.symmetric);
  base.act_order = config.flag("desc_act", base.act_order);
  check_bits(base, config.where());
  return base;
}

PackedRule pattern_rule(const std::string& pattern, const std::string& where) {
  return {PackedRule::Match::kPattern, pattern, std::make_shared<NamePattern>(pattern, where),
          std::nullopt};
}

// GPTQModel's `dynamic`: patterns in the order of the file, "-:" leaves layers dense, "+:" or
// nothing sets what they differ in.
void add_dynamic_rules(const nlohmann::ordered_json& dynamic, const std::string& where,
                       const PackedLayer& base, std::vector<PackedRule>& rules) {
  if (dynamic.is_null()) return;
  if (!dynamic.is_object())
    throw Error(where, "expected an object as 'dynamic', got " + dynamic.dump());
  for (const auto& [name, set] : dynamic.items()) {
    const bool dense = name.starts_with("-:");
    const std::string pattern = dense || name.starts_with("+:") ? name.substr(2) : name;
    if (!set.is_object())
      throw Error(where,
                  "expected an object as rule '" + name + "' of 'dynamic', got " + set.dump());
    PackedRule rule = pattern_rule(pattern, where);
    if (!dense)
      rule.layer = gptq_layer(
          ConfigReader(where + ", dynamic '" + name + "'", json::parse(set.dump())), base);
    rules.push_back(std::move(rule));
  }
}

// A list of names, or of lists of names that are quantized together.
void add_modules(const nlohmann::ordered_json& modules, std::vector<std::string>& names) {
  if (modules.is_string()) names.push_back(modules.get<std::string>());
  if (modules.is_array())
    for (const auto& entry : modules) add_modules(entry, names);
}

PackedConfig read_gptq(const ConfigReader& config, const nlohmann::ordered_json& in_order) {
  PackedConfig result;
  result.where = config.where();
  result.format = gptq_format(config, result.labelled);
  config.require("pack_dtype", "int32", "Other words are packed in another way.");
  config.require("rotation", nullptr, "Rotated weights need rotated activations.");
  const PackedLayer base =
      gptq_layer(config, {.format = result.format, .bits = 0, .group_size = -1, .symmetric = true});
  if (config.has("lm_head")) result.packed_head = config.flag("lm_head", false);
  if (in_order.contains("dynamic"))
    add_dynamic_rules(in_order.at("dynamic"), config.where(), base, result.rules);
  result.rules.push_back({PackedRule::Match::kAll, "", nullptr, base});
  if (in_order.contains(kModules)) add_modules(in_order.at(kModules), result.modules);
  for (const char* key : {"model_file_base_name", "model_basename"})
    if (config.has(key)) result.file_names.push_back(config.text(key, ""));
  result.file_names.push_back("gptq_model-" + std::to_string(base.bits) + "bit-" +
                              std::to_string(base.group_size) + "g");
  return result;
}

// --- compressed-tensors ---

PackedRule compressed_rule(const json& target, const std::string& where) {
  if (!target.is_string()) throw Error(where, "expected text as target, got " + target.dump());
  const auto& text = target.get_ref<const std::string&>();
  if (text == "Linear") return {PackedRule::Match::kAll, "", nullptr, std::nullopt};
  if (text.starts_with("re:")) return pattern_rule(text.substr(3), where);
  return {PackedRule::Match::kName, text, nullptr, std::nullopt};
}

std::string lower_case(std::string text) {
  for (char& letter : text)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

PackedLayer compressed_layer(const ConfigReader& group) {
  for (const char* key : {"input_activations", "output_activations"})
    group.require(key, nullptr, "This program does not compute quantized activations.");
  group.require("format", "pack-quantized", "Other formats store weights in another way.");
  const auto weights = group.section("weights");
  if (!weights) throw Error(group.where(), "expected an object 'weights', got none");
  weights->require("type", "int", "Codes are whole numbers.");
  weights->require("dynamic", false, "Weights have fixed scales.");
  weights->require("block_structure", nullptr, "Scales of blocks are another format.");
  PackedLayer layer{.format = PackedFormat::kCompressedTensors};
  layer.bits = weights->size("num_bits");
  layer.symmetric = weights->flag("symmetric", true);
  // Where nothing names a strategy, -1 is a group of the whole row.
  const bool grouped = weights->has("group_size") && whole(*weights, "group_size", nullptr, 0) > 0;
  const std::string strategy = weights->text("strategy", grouped ? "group" : "channel");
  if (strategy == "group")
    layer.group_size = weights->size("group_size");
  else if (strategy != "channel")
    throw Error(weights->where(), "strategy: " + unknown_name(strategy, {"group", "channel"}));
  if (weights->has("actorder")) {
    json order = weights->object().at("actorder");
    if (order.is_string()) order = lower_case(order.get<std::string>());
    layer.act_order = order == "group" || order == true;
    if (!layer.act_order && order != "static" && order != "weight" && order != false)
      throw Error(weights->where(),
                  "expected 'group', 'static' or 'weight' as actorder, got " + order.dump());
  }
  check_bits(layer, weights->where());
  return layer;
}

PackedConfig read_compressed(const ConfigReader& config) {
  config.require("format", "pack-quantized", "Other formats store weights in another way.");
  // "frozen" is what some versions leave in folders that do hold codes; without weight_packed
  // tensors PackedLinears refuses them.
  if (config.text("quantization_status", "compressed") != "frozen")
    config.require("quantization_status", "compressed", "Only compressed folders hold codes.");
  config.require("kv_cache_scheme", nullptr, "This program does not quantize the cache.");
  for (const char* key : {"sparsity_config", "transform_config"})
    if (config.has(key) && !config.object().at(key).empty())
      throw Error(config.where(), std::string("expected '") + key +
                                      "' absent or empty, got settings that change the result and "
                                      "that this program does not compute");
  PackedConfig result;
  result.where = config.where();
  result.format = PackedFormat::kCompressedTensors;
  result.labelled = true;
  if (config.has("ignore") && !config.object().at("ignore").is_array())
    throw Error(config.where(),
                "expected a list as 'ignore', got " + config.object().at("ignore").dump());
  if (config.has("ignore"))
    for (const json& target : config.object().at("ignore"))
      result.rules.push_back(compressed_rule(target, config.where() + ", ignore"));
  const auto groups = config.section("config_groups");
  if (!groups) throw Error(config.where(), "expected an object 'config_groups', got none");
  // Names and patterns come before the class of all linears.
  std::vector<PackedRule> all;
  for (const auto& [name, group] : groups->object().items()) {
    const ConfigReader reader(groups->where() + ", " + name, group);
    const PackedLayer layer = compressed_layer(reader);
    if (!reader.has("targets") || !group.at("targets").is_array())
      throw Error(reader.where(), "expected a list 'targets', got none");
    for (const json& target : group.at("targets")) {
      PackedRule rule = compressed_rule(target, reader.where() + ", targets");
      rule.layer = layer;
      (rule.match == PackedRule::Match::kAll ? all : result.rules).push_back(std::move(rule));
    }
  }
  result.rules.insert(result.rules.end(), all.begin(), all.end());
  return result;
}

// --- which file ---

struct Found {
  ConfigReader reader;
  nlohmann::ordered_json in_order;
};

std::optional<Found> settings_file(const fs::path& path, bool inside_config) {
  if (!fs::exists(path)) return std::nullopt;
  const std::string text = read_file(path);
  json object = parse_json_object(text, path.string());
  auto in_order = nlohmann::ordered_json::parse(text);
  if (!inside_config) return Found{ConfigReader(path.string(), std::move(object)), in_order};
  if (!object.contains(kSettings) || object.at(kSettings).is_null()) return std::nullopt;
  const auto section = ConfigReader(path.string(), std::move(object)).section(kSettings);
  return Found{*section, in_order.at(kSettings)};
}

PackedConfig read_settings(const Found& found) {
  const std::string method = found.reader.text("quant_method", found.reader.text("method", "gptq"));
  if (method == "gptq") return read_gptq(found.reader, found.in_order);
  if (method == "compressed-tensors") return read_compressed(found.reader);
  throw Error(found.reader.where(),
              "quant_method: " + unknown_name(method, {"gptq", "compressed-tensors"}) +
                  ". Other packed weights are not read: use the folder they were made from");
}

// Both files of one folder: readers take either, so they must agree.
void check_agreement(const PackedConfig& a, const PackedConfig& b) {
  const auto differ = [&](const std::string& what, const std::string& of_a,
                          const std::string& of_b) {
    if (of_a != of_b)
      throw Error(b.where, "expected the " + what + " of " + a.where + ", " + of_a + ", got " +
                               of_b + ". Remove the file that is wrong");
  };
  const auto word = [](bool value) { return value ? "true" : "false"; };
  if (a.labelled && b.labelled) differ("format", format_name(a.format), format_name(b.format));
  if (a.packed_head && b.packed_head) differ("lm_head", word(*a.packed_head), word(*b.packed_head));
  differ("number of rules", std::to_string(a.rules.size()), std::to_string(b.rules.size()));
  for (size_t i = 0; i < a.rules.size(); ++i) {
    const PackedRule &rule_a = a.rules[i], &rule_b = b.rules[i];
    const auto target = [](const PackedRule& rule) {
      return rule.match == PackedRule::Match::kAll ? "all layers" : "'" + rule.text + "'";
    };
    const std::string of =
        rule_a.match == PackedRule::Match::kAll ? "" : " of layers " + target(rule_a);
    differ("rule " + std::to_string(i + 1), target(rule_a), target(rule_b));
    differ("form" + of, rule_a.layer ? "packed" : "dense", rule_b.layer ? "packed" : "dense");
    if (!rule_a.layer || !rule_b.layer) continue;
    const PackedLayer &layer_a = *rule_a.layer, &layer_b = *rule_b.layer;
    differ("bits" + of, std::to_string(layer_a.bits), std::to_string(layer_b.bits));
    differ("group size" + of, std::to_string(layer_a.group_size),
           std::to_string(layer_b.group_size));
    differ("sym" + of, word(layer_a.symmetric), word(layer_b.symmetric));
    differ("desc_act" + of, word(layer_a.act_order), word(layer_b.act_order));
  }
}

bool fits(const PackedRule& rule, const std::string& layer) {
  switch (rule.match) {
    case PackedRule::Match::kAll:
      return true;
    case PackedRule::Match::kName:
      return rule.text == layer;
    case PackedRule::Match::kPattern:
      return rule.pattern->fits_start_of(layer);
  }
  return false;
}

}  // namespace

std::optional<PackedLayer> PackedConfig::layer(const std::string& layer) const {
  for (const PackedRule& rule : rules)
    if (fits(rule, layer)) return rule.layer;
  return std::nullopt;
}

std::optional<PackedConfig> read_packed_config(const fs::path& folder, const ConfigReader& config) {
  std::optional<PackedConfig> result;
  for (const char* name : {"config.json", "quantize_config.json", "quant_config.json"}) {
    const bool inside = std::string_view(name) == "config.json";
    if (inside && !config.has(kSettings)) continue;
    const auto found = settings_file(folder / name, inside);
    if (!found) continue;
    PackedConfig read = read_settings(*found);
    if (!result) {
      result = std::move(read);
      continue;
    }
    check_agreement(*result, read);
    if (!result->packed_head) result->packed_head = read.packed_head;
    result->labelled = result->labelled || read.labelled;
    if (read.labelled) result->format = read.format;
    result->file_names.insert(result->file_names.end(), read.file_names.begin(),
                              read.file_names.end());
  }
  return result;
}

}  // namespace gptqb
