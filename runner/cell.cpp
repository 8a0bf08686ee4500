#include "runner/cell.h"

#include <algorithm>

#include "common/error.h"
#include "common/hash.h"
#include "common/text.h"
#include "runner/resolve.h"
#include "runner/schema.h"

namespace gptqb {

namespace {

using nlohmann::json;

// The checked values of a canonical text. JSON is YAML, so the reader of experiment files serves
// here too.
Values read_values(const std::string& canonical) {
  const std::string file = "cell";
  Faults faults;
  const std::vector<YamlNode> documents = parse_yaml(canonical, file, faults);
  faults.raise(file);
  if (documents.size() != 1 || !documents[0].is_map())
    throw Error(file,
                "expected a JSON object of dotted keys, got '" + canonical.substr(0, 60) + "'");
  Values values;
  for (const YamlEntry& entry : documents[0].entries) {
    const KeySpec* spec = find_key(entry.key);
    if (spec == nullptr || spec->type == KeyType::kStructure) {
      faults.add(entry.position, entry.key, unknown_key("", entry.key));
      continue;
    }
    if (const auto value = convert(*spec, entry.value, faults)) values[entry.key] = *value;
  }
  faults.raise(file);
  return values;
}

}  // namespace

Cell Cell::from_json(const std::string& canonical) {
  const Values values = read_values(canonical);
  Cell cell;
  cell.canonical_ = json(values).dump();
  cell.id_ = sha256_hex(cell.canonical_).substr(0, 16);
  // In the order of the table: rules patch `quant`, which therefore must be complete before them.
  for (const KeySpec& spec : key_table()) {
    const auto value = values.find(spec.key);
    if (value == values.end()) continue;
    cell.settings_.emplace_back(spec.key, value_text(value->second));
    if (spec.bind) spec.bind(cell.resolved_, value->second);
  }
  if (values.count("method.name") == 0) cell.resolved_.method.name = "none";
  cell.needs_calibration_ = values.count("calibration.dataset") > 0;
  return cell;
}

std::string Cell::setting(const std::string& key) const {
  for (const auto& [name, value] : settings_)
    if (name == key) return value;
  return "";
}

std::optional<QuantConfig> Cell::with_bits(std::optional<int64_t> bits) const {
  if (!bits) return std::nullopt;
  QuantConfig quant = resolved_.quant;
  quant.bits = *bits;
  return quant;
}

LayerChoice Cell::settings_for(const std::string& layer) const {
  for (const OverrideRule& rule : resolved_.overrides)
    if (glob_match(rule.match, layer)) return rule.choice;
  return {false, resolved_.method.name, resolved_.quant, ""};
}

std::vector<std::string> Cell::unmatched_globs(const std::vector<std::string>& layers) const {
  std::vector<bool> used(resolved_.overrides.size(), false);
  for (const std::string& layer : layers) {
    for (size_t i = 0; i < used.size(); ++i) {
      if (!glob_match(resolved_.overrides[i].match, layer)) continue;
      used[i] = true;
      break;
    }
  }
  std::vector<std::string> sentences;
  const auto add = [&](const std::string& key, const std::string& glob, const std::string& shadow) {
    std::string sentence = key + ": expected '" + glob + "' to match a layer, got none of " +
                           std::to_string(layers.size());
    if (!shadow.empty())
      sentence += ": '" + shadow + "' stands before it and takes all of its layers";
    else if (!layers.empty())
      sentence += ". Layers are named like " + layers.front();
    sentences.push_back(sentence);
  };
  const std::string& chosen = resolved_.method.layers;
  if (std::none_of(layers.begin(), layers.end(),
                   [&](const std::string& layer) { return glob_match(chosen, layer); }))
    add("method.layers", chosen, "");
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    const std::string& match = resolved_.overrides[i].match;
    std::string shadow;
    for (size_t j = 0; j < i && shadow.empty(); ++j)
      for (const std::string& layer : layers)
        if (glob_match(match, layer) && glob_match(resolved_.overrides[j].match, layer))
          shadow = resolved_.overrides[j].match;
    add("overrides", match, shadow);
  }
  return sentences;
}

std::string Cell::summary() const {
  std::string text = setting("method.name");
  if (measures_kernels()) {
    const std::string like = setting("kernels.like");
    return "kernels " + (like.empty() ? setting("kernels.shapes") : like);
  }
  if (const std::string bits = setting("model.synthetic.packed.bits"); dense() && !bits.empty())
    return "none (packed, " + bits + " bits)";
  if (dense()) return "none (dense)";
  text += " " + setting("quant.bits") + " bits";
  const std::string group = setting("quant.group_size");
  text += group == "-1" ? ", per row" : ", groups of " + group;
  if (quant().symmetric) text += ", symmetric";
  if (method().act_order)
    text += ", act-order";
  else if (!setting("method.order").empty())
    text += ", order " + setting("method.order");
  if (method().static_groups) text += ", static groups";
  if (method().true_sequential) text += ", true-sequential";
  if (quant().grid_search == GridSearch::kMse) text += ", mse grid";
  if (needs_calibration() && calibration().seed != 0)
    text += ", seed " + setting("calibration.seed");
  if (head()) text += ", head " + setting("quant.head") + " bits";
  if (embedding()) text += ", embedding " + setting("quant.embedding") + " bits";
  if (method().outlier_first && method().name == "obq") text += ", outliers first";
  if (method().rows > 0) text += ", " + setting("method.rows") + " rows a linear";
  if (method().layers != "*") text += ", layers " + method().layers;
  if (!overrides().empty()) text += ", overrides";
  return text;
}

}  // namespace gptqb
