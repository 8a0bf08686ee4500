// From a YAML node to the canonical value of a key.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

#include "common/text.h"
#include "runner/schema.h"

namespace gptqb {

namespace {

using nlohmann::json;

// Whether `text` is a number by our rules: no leading zeros, underscores, hex, octal, inf or nan.
bool looks_like_number(const std::string& text) {
  static const std::regex kNumber(
      R"([-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?)");
  return text.size() < 64 && std::regex_match(text, kNumber);
}

// A scalar's text with `${...}` expanded, or nothing after a fault.
std::optional<std::string> expanded(const std::string& key, const YamlNode& node, Faults& faults) {
  try {
    return expand_variables(node.text);
  } catch (const std::invalid_argument& fault) {
    faults.add(node.position, key, fault.what());
    return std::nullopt;
  }
}

bool is_reference(const YamlNode& node) { return node.text.find("${") != std::string::npos; }

std::string describe(const YamlNode& node, const std::string& text) {
  if (!node.is_scalar() || text == node.text) return node.describe();
  return "'" + text + "' (" + node.text + ")";
}

// Why a text that a person would take for a number is none here.
std::string number_hint(const std::string& text) {
  static const std::regex kLeadingZero(R"([-+]?0[0-9]+(\.[0-9]*)?)");
  static const std::regex kPrefixed(R"([-+]?0[xXoObB][0-9a-fA-F_]+)");
  static const std::regex kUnderscore(R"([-+]?[0-9]+([_,][0-9]*)+(\.[0-9]*)?)");
  if (std::regex_match(text, kLeadingZero))
    return ". Leading zeros mean octal to some programs: leave them out";
  if (std::regex_match(text, kPrefixed)) return ". Write it in decimal";
  if (std::regex_match(text, kUnderscore)) return ". Write it without separators";
  return "";
}

std::string bounds_text(const KeySpec& spec) {
  const std::string kind = spec.type == KeyType::kInteger ? "an integer" : "a number";
  std::string text;
  for (const std::string& word : spec.words) text += word + " or ";
  text += kind;
  if (std::isfinite(spec.range.max))
    return text + " from " + value_text(spec.range.min) + " to " + value_text(spec.range.max);
  if (spec.range.min > 0 && spec.range.min < 1e-300) return text + " > 0";
  if (std::isfinite(spec.range.min))
    return text + " >= " + std::to_string(static_cast<int64_t>(spec.range.min));
  return text;
}

std::optional<json> convert_number(const KeySpec& spec, const YamlNode& node, Faults& faults) {
  const auto refuse = [&](const std::string& got) {
    faults.add(node.position, spec.key, "expected " + bounds_text(spec) + ", got " + got);
    return std::nullopt;
  };
  if (!node.is_scalar()) return refuse(node.describe());
  const std::optional<std::string> text = expanded(spec.key, node, faults);
  if (!text) return std::nullopt;
  if (std::find(spec.words.begin(), spec.words.end(), *text) != spec.words.end()) {
    if (const auto number = parse_integer(*text)) return *number;
    return *text;
  }
  if (node.quoted && !is_reference(node))
    return refuse("the quoted text '" + *text + "'. Write it without quotes");
  if (spec.type == KeyType::kInteger) {
    const std::optional<int64_t> number = parse_integer(*text);
    if (!number) {
      const bool fractional =
          looks_like_number(*text) && text->find_first_of(".eE") != std::string::npos;
      return refuse(describe(node, *text) +
                    (fractional ? ". Write it without point or exponent" : number_hint(*text)));
    }
    if (*number < spec.range.min || *number > spec.range.max) return refuse(describe(node, *text));
    return *number;
  }
  const std::optional<double> number = parse_number(*text);
  if (!number) return refuse(describe(node, *text) + number_hint(*text));
  if (*number < spec.range.min || *number > spec.range.max) return refuse(describe(node, *text));
  return *number;
}

std::optional<json> convert_bool(const KeySpec& spec, const YamlNode& node, Faults& faults) {
  const auto refuse = [&](const std::string& got) {
    faults.add(node.position, spec.key, "expected true or false, got " + got);
    return std::nullopt;
  };
  if (!node.is_scalar()) return refuse(node.describe());
  const std::optional<std::string> text = expanded(spec.key, node, faults);
  if (!text) return std::nullopt;
  if (*text == "true" || *text == "false") {
    if (node.quoted && !is_reference(node))
      return refuse("the quoted text '" + *text + "'. Write it without quotes");
    return *text == "true";
  }
  static const std::vector<std::string> kYes = {"yes", "Yes", "YES",  "on",   "On", "ON",
                                                "y",   "Y",   "True", "TRUE", "1"};
  static const std::vector<std::string> kNo = {"no", "No", "NO",    "off",   "Off", "OFF",
                                               "n",  "N",  "False", "FALSE", "0"};
  const bool yes = std::find(kYes.begin(), kYes.end(), *text) != kYes.end();
  const bool no = std::find(kNo.begin(), kNo.end(), *text) != kNo.end();
  if (!yes && !no) return refuse(describe(node, *text));
  return refuse(describe(node, *text) + ". Programs disagree on that spelling: write " +
                (yes ? "true" : "false"));
}

std::optional<json> convert_choice(const KeySpec& spec, const YamlNode& node, Faults& faults) {
  if (!node.is_scalar()) {
    faults.add(node.position, spec.key,
               "expected one of " + join(spec.words, ", ") + "; got " + node.describe());
    return std::nullopt;
  }
  const std::optional<std::string> text = expanded(spec.key, node, faults);
  if (!text) return std::nullopt;
  for (const std::string& word : spec.words) {
    if (word == "random:SEED") {
      if (text->compare(0, 7, "random:") == 0)
        if (const auto seed = parse_integer(text->substr(7)); seed && *seed >= 0) return *text;
      continue;
    }
    if (word != *text) continue;
    const std::optional<int64_t> number = parse_integer(word);
    if (!number) return word;
    if (node.quoted && !is_reference(node)) {
      faults.add(node.position, spec.key,
                 "expected one of " + join(spec.words, ", ") + "; got the quoted text '" + word +
                     "'. Write it without quotes");
      return std::nullopt;
    }
    return *number;
  }
  // A number near a wrong one is no help.
  std::string message = parse_number(*text)
                            ? "expected one of " + join(spec.words, ", ") + "; got '" + *text + "'"
                            : unknown_name(*text, spec.words);
  if (is_reference(node)) message += " (" + node.text + ")";
  faults.add(node.position, spec.key, message);
  return std::nullopt;
}

std::optional<json> convert_text(const KeySpec& spec, const YamlNode& node, Faults& faults) {
  if (!node.is_scalar()) {
    faults.add(node.position, spec.key, "expected text, got " + node.describe());
    return std::nullopt;
  }
  const std::optional<std::string> text = expanded(spec.key, node, faults);
  if (!text) return std::nullopt;
  if (text->empty()) {
    faults.add(node.position, spec.key, "expected text, got an empty one");
    return std::nullopt;
  }
  return spec.type == KeyType::kPath ? node.text : *text;
}

// {name, source, join, field}: a dataset of the user's own.
std::optional<json> convert_own_dataset(const KeySpec& spec, const YamlNode& node, Faults& faults) {
  static const std::vector<std::string> kKeys = {"name", "source", "join", "field"};
  json result = json::object();
  bool good = true;
  for (const YamlEntry& entry : node.entries) {
    if (std::find(kKeys.begin(), kKeys.end(), entry.key) == kKeys.end()) {
      faults.add(entry.position, spec.key + "." + entry.key, unknown_name(entry.key, kKeys));
      good = false;
    } else if (!entry.value.is_scalar()) {
      faults.add(entry.value.position, spec.key + "." + entry.key,
                 "expected text, got " + entry.value.describe());
      good = false;
    } else if (const auto text = expanded(spec.key + "." + entry.key, entry.value, faults)) {
      if (entry.key == "source") {
        const std::string kind = text->substr(0, text->find(':'));
        if ((kind != "text" && kind != "jsonl" && kind != "tokens") ||
            text->size() <= kind.size() + 1) {
          faults.add(entry.value.position, spec.key + ".source",
                     "expected text:PATH, jsonl:PATH or tokens:PATH; got '" + *text + "'");
          good = false;
        }
      }
      result[entry.key] = entry.key == "source" ? entry.value.text : *text;
    } else {
      good = false;
    }
  }
  for (const char* key : {"name", "source"}) {
    if (node.find(key) != nullptr) continue;
    faults.add(
        node.position, spec.key,
        "expected {name, source, join, field}, got a map without '" + std::string(key) + "'");
    good = false;
  }
  if (!good) return std::nullopt;
  const std::string name = result["name"];
  static const std::regex kName("[A-Za-z0-9_.-]+");
  if (!std::regex_match(name, kName)) {
    faults.add(node.find("name")->position, spec.key + ".name",
               "expected letters, digits, '_', '.' and '-', got '" + name + "'. It names a metric");
    return std::nullopt;
  }
  if (datasets().has(name)) {
    faults.add(node.find("name")->position, spec.key + ".name",
               "expected a name of your own, got '" + name + "', which is a published dataset");
    return std::nullopt;
  }
  const DatasetSpec defaults;
  if (!result.contains("join")) result["join"] = defaults.join;
  const bool lines = expand_variables(result["source"]).compare(0, 6, "jsonl:") == 0;
  if (lines && !result.contains("field")) result["field"] = defaults.field;
  if (!lines && result.contains("field")) {
    faults.add(node.find("field")->position, spec.key + ".field",
               "expected `field` only with source jsonl:PATH, got source " +
                   result["source"].get<std::string>());
    return std::nullopt;
  }
  return result;
}

std::optional<json> convert_dataset(const KeySpec& spec, const YamlNode& node, Faults& faults) {
  if (node.is_map()) return convert_own_dataset(spec, node, faults);
  if (!node.is_scalar()) {
    faults.add(
        node.position, spec.key,
        "expected a dataset (a name, or {name, source, join, field}), got " + node.describe());
    return std::nullopt;
  }
  const std::optional<std::string> text = expanded(spec.key, node, faults);
  if (!text) return std::nullopt;
  try {
    return DatasetSpec::parse(*text).label();
  } catch (const Error& fault) {
    const std::string what = fault.what();
    faults.add(node.position, spec.key, what.substr(fault.where().size() + 3));
    return std::nullopt;
  }
}

std::optional<json> convert_mixture(const KeySpec& spec, const YamlNode& node, Faults& faults) {
  if (!node.is_list()) return convert_dataset(spec, node, faults);
  KeySpec share_spec;
  share_spec.key = spec.key + ".share";
  share_spec.type = KeyType::kFloat;
  share_spec.range = {0, 1};
  json result = json::array();
  double total = 0;
  bool good = !node.items.empty();
  if (!good)
    faults.add(node.position, spec.key, "expected at least one dataset, got an empty list");
  for (const YamlNode& item : node.items) {
    const YamlNode* dataset = item.find("dataset");
    const YamlNode* share = item.find("share");
    if (dataset == nullptr || share == nullptr || item.entries.size() != 2) {
      faults.add(item.position, spec.key,
                 "expected {dataset, share}, got " +
                     (item.is_map() ? "a map with other keys" : item.describe()));
      good = false;
      continue;
    }
    const auto what = convert_dataset(spec, *dataset, faults);
    const auto part = convert_number(share_spec, *share, faults);
    good = good && what && part;
    if (what && part) {
      total += part->get<double>();
      result.push_back({{"dataset", *what}, {"share", *part}});
    }
  }
  if (!good) return std::nullopt;
  if (std::abs(total - 1) > 1e-6) {
    faults.add(node.position, spec.key,
               "expected shares that add up to 1, got " + value_text(total));
    return std::nullopt;
  }
  if (result.size() == 1) return result[0]["dataset"];
  return result;
}

// What a rule may set of `quant`: head and embedding are no layers that rules reach.
bool is_layer_key(const std::string& key) {
  return key.compare(0, 6, "quant.") == 0 && key != "quant.head" && key != "quant.embedding";
}

// Keys of a rule may be dotted ("quant.bits") or nested ("quant: {bits: 8}").
bool convert_rule_entries(const YamlNode& node, const std::string& prefix, json& rule,
                          Faults& faults) {
  static const std::vector<std::string> kKeys = {"match", "skip", "method.name", "quant.bits"};
  bool good = true;
  for (const YamlEntry& entry : node.entries) {
    const std::string key = prefix + entry.key;
    if ((key == "quant" || key == "method") && entry.value.is_map()) {
      good = convert_rule_entries(entry.value, key + ".", rule, faults) && good;
      continue;
    }
    const KeySpec* spec = find_key(key);
    KeySpec own;
    own.key = "overrides." + key;
    if (key == "match") {
      own.type = KeyType::kText;
      spec = &own;
    } else if (key == "skip") {
      own.type = KeyType::kBool;
      spec = &own;
    } else if (spec == nullptr || (key != "method.name" && !is_layer_key(key))) {
      std::string message =
          "expected match, skip, method.name or a key of quant, got '" + key + "'.";
      std::vector<std::string> known = {"match", "skip", "method.name"};
      for (const KeySpec& each : key_table())
        if (is_layer_key(each.key)) known.push_back(each.key);
      std::string near = nearest_name(key, known);
      if (near.empty()) near = nearest_name("quant." + key, known);
      if (!near.empty()) message += " Did you mean '" + near + "'?";
      faults.add(entry.position, "overrides." + key, message);
      good = false;
      continue;
    }
    const std::optional<json> value = convert(*spec, entry.value, faults);
    if (value && rule.contains(key)) {
      faults.add(entry.position, "overrides." + key,
                 "expected each key once, got '" + key + "' again");
      good = false;
    }
    if (value) rule[key] = *value;
    good = good && value;
  }
  return good;
}

std::optional<json> convert_rule(const KeySpec& spec, const YamlNode& node, Faults& faults) {
  if (!node.is_map()) {
    faults.add(node.position, spec.key,
               "expected {match, skip, quant.*, method.name}, got " + node.describe());
    return std::nullopt;
  }
  json rule = json::object();
  if (!convert_rule_entries(node, "", rule, faults)) return std::nullopt;
  if (!rule.contains("match")) {
    faults.add(node.position, spec.key,
               "expected a `match`, got a rule without one. Add match: \"glob of layer names\"");
    return std::nullopt;
  }
  if (rule.size() == 1) {
    faults.add(node.position, spec.key,
               "expected skip, quant.* or method.name beside `match`, got nothing");
    return std::nullopt;
  }
  if (rule.contains("skip") && rule["skip"] == true && rule.size() > 2) {
    faults.add(
        node.position, spec.key,
        "expected `skip: true` alone, got other settings beside it. A skipped layer has none");
    return std::nullopt;
  }
  return rule;
}

std::optional<json> convert_one(const KeySpec& spec, const YamlNode& node, Faults& faults) {
  switch (spec.type) {
    case KeyType::kBool:
      return convert_bool(spec, node, faults);
    case KeyType::kInteger:
    case KeyType::kFloat:
      return convert_number(spec, node, faults);
    case KeyType::kText:
    case KeyType::kPath:
      return convert_text(spec, node, faults);
    case KeyType::kChoice:
      return convert_choice(spec, node, faults);
    case KeyType::kDataset:
      return convert_dataset(spec, node, faults);
    case KeyType::kMixture:
      return convert_mixture(spec, node, faults);
    case KeyType::kRules:
      return convert_rule(spec, node, faults);
    case KeyType::kStructure:
      break;
  }
  throw std::logic_error("convert: key '" + spec.key + "' has a structure of its own");
}

}  // namespace

std::optional<json> convert(const KeySpec& spec, const YamlNode& node, Faults& faults) {
  if (spec.arity == Arity::kOne || (spec.arity == Arity::kOneOrList && !node.is_list()))
    return convert_one(spec, node, faults);
  if (!node.is_list()) {
    faults.add(node.position, spec.key, "expected a list, got " + node.describe());
    return std::nullopt;
  }
  json result = json::array();
  bool good = true;
  for (const YamlNode& item : node.items) {
    const std::optional<json> value = convert_one(spec, item, faults);
    good = good && value;
    if (value) result.push_back(*value);
  }
  if (!good) return std::nullopt;
  return result;
}

std::optional<double> parse_number(const std::string& text) {
  if (!looks_like_number(text)) return std::nullopt;
  const char* begin = text.data() + (text[0] == '+' ? 1 : 0);
  double value = 0;
  const auto [end, fault] = std::from_chars(begin, text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

std::optional<int64_t> parse_integer(const std::string& text) {
  if (!looks_like_number(text) || text.find_first_of(".eE") != std::string::npos)
    return std::nullopt;
  const char* begin = text.data() + (text[0] == '+' ? 1 : 0);
  int64_t value = 0;
  const auto [end, fault] = std::from_chars(begin, text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace gptqb
