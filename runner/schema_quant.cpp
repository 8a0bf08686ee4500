// Keys of the sections `quant` and `compat`, and the rules that change `quant` by layer.
#include "common/text.h"
#include "runner/resolve.h"
#include "runner/schema_sections.h"

namespace gptqb::schema {

using nlohmann::json;

namespace {

// Why `key` of a rule changes nothing in the layers that it takes; empty: it does.
std::string unused_by_layers(const std::string& key, const ResolvedSettings& patched) {
  if (key.compare(0, 6, "quant.") != 0) return "";
  const std::string& method = patched.method.name;
  if (!method_uses(method, key)) return " (not used by " + method + ")";
  if (method == "rtn" && key == "quant.group_size" && patched.compat.reference_rtn_groups)
    return " (not used under compat.rtn_groups reference)";
  const bool of_search =
      key == "quant.grid_norm" || key == "quant.grid_steps" || key == "quant.grid_shrink";
  if (of_search && patched.quant.grid_search == GridSearch::kNone)
    return " (not used without quant.grid_search)";
  return "";
}

// Rules patch the cell's own `quant`, which the table therefore lists (and binds) before
// `overrides`.
void bind_rules(ResolvedSettings& settings, const json& value) {
  settings.overrides.clear();
  for (const json& rule : value) {
    ResolvedSettings patched;
    patched.quant = settings.quant;
    patched.method = settings.method;
    patched.compat = settings.compat;
    OverrideRule result;
    result.match = rule.at("match").get<std::string>();
    for (const auto& [key, set] : rule.items()) {
      if (key == "skip") result.choice.skip = set.get<bool>();
      const KeySpec* spec = find_key(key);
      if (spec != nullptr && spec->bind) spec->bind(patched, set);
    }
    std::vector<std::string> changes;
    for (const auto& [key, set] : rule.items())
      if (key != "match")
        changes.push_back(key + " " + value_text(set) + unused_by_layers(key, patched));
    result.choice.rule = result.match + ": " + join(changes, ", ");
    result.choice.method = patched.method.name;
    result.choice.quant = patched.quant;
    settings.overrides.push_back(result);
  }
}

void bind_bits(ResolvedSettings& settings, const json& value) {
  settings.quant.bits = value.is_string() ? QuantConfig::kTernary : value.get<int64_t>();
}

}  // namespace

void append_quant(std::vector<KeySpec>& table) {
  const auto quant = &ResolvedSettings::quant;
  table.push_back(with_bind(word("quant.bits", {"2", "3", "4", "8", "ternary"}, QuantConfig{}.bits,
                                 "bits of a code; ternary: the levels {min, 0, max} of each group"),
                            bind_bits));
  table.push_back(with_words(integer("quant.group_size", quant, &QuantConfig::group_size, 1,
                                     "input columns that share a grid; -1: the whole row. The last "
                                     "group may be short"),
                             {"-1"}));
  table.push_back(boolean("quant.symmetric", quant, &QuantConfig::symmetric,
                          "grid from -max to max, zero point in the middle"));
  table.push_back(
      choice("quant.grid_search", quant, &QuantConfig::grid_search,
             {{"none", GridSearch::kNone}, {"mse", GridSearch::kMse}},
             "none: the grid spans the weights; mse: it is shrunk where that lowers the error"));
  table.push_back(choice("quant.scale_dtype", quant, &QuantConfig::scale_dtype,
                         {{"float16", ScaleDtype::kFloat16}, {"float32", ScaleDtype::kFloat32}},
                         "dtype of stored scales, rounded before codes are chosen"));
  table.push_back(field("quant.grid_norm", KeyType::kFloat, quant, &QuantConfig::grid_norm,
                        {std::numeric_limits<double>::min(), kUnbounded},
                        "grid search: exponent of the error"));
  table.push_back(integer("quant.grid_steps", quant, &QuantConfig::grid_steps, 1,
                          "grid search: steps of the shrink factor from 1 to 0"));
  table.push_back(field("quant.grid_shrink", KeyType::kFloat, quant, &QuantConfig::grid_shrink,
                        {0, 1},
                        "grid search: share of the steps that are tried, above 0 and below 1"));
  table.push_back(model_end("quant.head", &ResolvedSettings::head_bits,
                            "bits of the output projection; a tied one is untied"));
  table.push_back(model_end("quant.embedding", &ResolvedSettings::embedding_bits,
                            "bits of the token embedding, rounded to the nearest by any method"));
}

void append_compat(std::vector<KeySpec>& table) {
  const auto compat = &ResolvedSettings::compat;
  table.push_back(word("compat.base", {"default", "reference"}, "default",
                       "reference: every policy as the published code; keys given beside it win. "
                       "`compat: reference` is short for it"));
  table.push_back(
      choice("compat.group_grid", compat, &CompatPolicy::reference_group_grid,
             {{"fresh", false}, {"reference", true}},
             "weights a group's grid is fitted on: current ones, or those of the block's start"));
  table.push_back(
      choice("compat.one_sided", compat, &CompatPolicy::reference_one_sided,
             {{"full_range", false}, {"reference", true}},
             "symmetric rows without negative weights: full range, or upper half clipped"));
  table.push_back(choice("compat.rtn_groups", compat, &CompatPolicy::reference_rtn_groups,
                         {{"honour", false}, {"reference", true}}, "whether RTN honours groups"));
  table.push_back(choice("compat.rtn_dtype", compat, &CompatPolicy::reference_rtn_dtype,
                         {{"float32", false}, {"model", true}},
                         "dtype RTN computes grids and codes in"));
  table.push_back(choice("compat.dead_columns", compat, &CompatPolicy::reference_dead_columns,
                         {{"exclude", false}, {"reference", true}},
                         "columns without input: left out of the grid, or only cleared"));
  table.push_back(choice("compat.loss_dtype", compat, &CompatPolicy::reference_loss_dtype,
                         {{"float32", false}, {"model", true}}, "dtype of the cross-entropy"));
  table.push_back(choice("compat.forward", compat, &CompatPolicy::reference_forward,
                         {{"fused", false}, {"reference", true}},
                         "forward pass on a GPU: fused kernels that keep attention scores in "
                         "float32, or every step rounded as transformers does (BLOOM)"));
}

void append_overrides(std::vector<KeySpec>& table) {
  table.push_back(with_bind(
      with_arity(
          with_default(plain("overrides", KeyType::kRules, Scope::kCell, "",
                             "`{match: glob, skip, quant.*, method.name}`: settings of the layers "
                             "whose full name matches; the first match wins"),
                       json::array()),
          Arity::kList),
      bind_rules));
}

}  // namespace gptqb::schema
