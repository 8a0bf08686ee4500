#include "runner/schema.h"

#include <algorithm>

#include "common/add_once.h"
#include "common/text.h"
#include "runner/schema_sections.h"

namespace gptqb {

namespace {

using nlohmann::json;

std::vector<KeySpec> make_table() {
  std::vector<KeySpec> table;
  schema::append_model(table);
  schema::append_calibration(table);
  schema::append_method(table);
  schema::append_run(table);
  schema::append_quant(table);
  schema::append_compat(table);
  schema::append_overrides(table);
  schema::append_evaluate(table);
  schema::append_kernels(table);
  schema::append_products(table);
  schema::append_structures(table);
  schema::append_executor(table);
  return table;
}

std::string last_part(const std::string& key) {
  const size_t dot = key.rfind('.');
  return dot == std::string::npos ? key : key.substr(dot + 1);
}

// Names one level below `section`: keys and sections.
std::vector<std::string> names_in(const std::string& section) {
  const std::string prefix = section.empty() ? "" : section + ".";
  std::vector<std::string> names;
  for (const KeySpec& spec : key_table()) {
    if (spec.key.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string rest = spec.key.substr(prefix.size());
    const std::string name = rest.substr(0, rest.find('.'));
    add_once(name, names);
  }
  return names;
}

// The key whose last part is `part`, the least deep of several: whoever leaves sections out means
// what is used most. "" if there is none.
std::string least_deep(const std::string& part) {
  std::string best;
  const auto depth = [](const std::string& key) { return std::count(key.begin(), key.end(), '.'); };
  for (const KeySpec& spec : key_table())
    if (last_part(spec.key) == part && (best.empty() || depth(spec.key) < depth(best)))
      best = spec.key;
  return best;
}

// The full key that `key`, found nowhere, most likely means; "" if nothing is near.
std::string suggestion(const std::string& section, const std::string& key) {
  const std::string prefix = section.empty() ? "" : section + ".";
  const std::string last = last_part(key);
  if (std::string same = least_deep(last); !same.empty()) return same;
  const std::string sibling = nearest_name(key, names_in(section));
  if (!sibling.empty()) return prefix + sibling;
  std::vector<std::string> full, parts;
  for (const KeySpec& spec : key_table()) {
    full.push_back(spec.key);
    parts.push_back(last_part(spec.key));
  }
  const std::string whole = nearest_name(prefix + key, full);
  if (!whole.empty()) return whole;
  const std::string part = nearest_name(last, parts);
  return part.empty() ? "" : least_deep(part);
}

std::string range_text(const KeySpec& spec) {
  std::vector<std::string> parts = spec.words;
  if (spec.type == KeyType::kInteger || spec.type == KeyType::kFloat) {
    const std::string letter = spec.type == KeyType::kInteger ? "integer" : "number";
    if (spec.range.max < schema::kUnbounded)
      parts.push_back(letter + " " + value_text(spec.range.min) + ".." +
                      value_text(spec.range.max));
    else if (spec.range.min > 0 && spec.range.min < 1e-300)
      parts.push_back(letter + " > 0");
    else
      parts.push_back(letter + " >= " + value_text(static_cast<int64_t>(spec.range.min)));
  }
  switch (spec.type) {
    case KeyType::kBool:
      return "true, false";
    case KeyType::kText:
    case KeyType::kPath:
      return "text";
    case KeyType::kDataset:
      return "dataset";
    case KeyType::kMixture:
      return "dataset, or list of {dataset, share}";
    case KeyType::kRules:
      return "rules";
    case KeyType::kStructure:
      return "see meaning";
    default:
      return join(parts, ", ");
  }
}

}  // namespace

const std::vector<KeySpec>& key_table() {
  static const std::vector<KeySpec> table = make_table();
  return table;
}

const KeySpec* find_key(const std::string& key) {
  for (const KeySpec& spec : key_table())
    if (spec.key == key) return &spec;
  return nullptr;
}

bool is_section(const std::string& prefix) {
  for (const KeySpec& spec : key_table())
    if (spec.key.compare(0, prefix.size() + 1, prefix + ".") == 0) return true;
  return false;
}

std::string unknown_key(const std::string& section, const std::string& key) {
  std::string message = "expected one of " + join(names_in(section), ", ") + "; got '" + key + "'.";
  const std::string near = suggestion(section, key);
  if (near.empty()) return message + " `gptq-bench schema` lists all keys";
  return message + " Did you mean '" + near + "'?";
}

std::string planned_value(const KeySpec& spec, const json& value) {
  if (spec.planned.empty() || value == spec.default_value) return "";
  const std::string text = value_text(value);
  for (const std::string& word : spec.planned) {
    const bool seeded = word == "random:SEED" && text.compare(0, 7, "random:") == 0;
    if (word == "*" || word == text || seeded) return spec.key + " " + text;
  }
  return "";
}

std::string value_text(const json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) {
    const std::string text = value.dump();
    return text.size() > 2 && text.substr(text.size() - 2) == ".0" ? text.substr(0, text.size() - 2)
                                                                   : text;
  }
  if (!value.is_array()) return value.dump();
  if (value.empty()) return "[]";
  std::vector<std::string> parts;
  for (const json& item : value) parts.push_back(value_text(item));
  return join(parts, ", ");
}

std::string schema_markdown() {
  std::string text = "| key | values | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const KeySpec& spec : key_table()) {
    std::string values = range_text(spec);
    if (spec.arity == Arity::kList) values = "list of " + values;
    if (spec.arity == Arity::kOneOrList) values += ", or a list of these";
    std::string meaning = spec.meaning;
    if (!spec.planned.empty())
      meaning += spec.planned[0] == "*" ? " (not supported yet)"
                                        : " (not supported yet: " + join(spec.planned, ", ") + ")";
    text +=
        "| `" + spec.key + "` | " + values + " | " + spec.default_text + " | " + meaning + " |\n";
  }
  return text;
}

}  // namespace gptqb
