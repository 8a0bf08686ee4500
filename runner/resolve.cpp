#include "runner/resolve.h"

#include <algorithm>
#include <set>

#include "common/text.h"
#include "runner/schema.h"

namespace gptqb {

namespace {

using nlohmann::json;

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

// "evaluate.perplexity." of "evaluate.perplexity.seqlen"; "" for keys of no evaluator.
std::string evaluator_prefix(const std::string& key) {
  return starts_with(key, "evaluate.") ? key.substr(0, key.rfind('.') + 1) : "";
}

bool any_with_prefix(const Settings& settings, const std::string& prefix) {
  const auto first = settings.lower_bound(prefix);
  return first != settings.end() && starts_with(first->first, prefix);
}

// The published choice of each policy.
std::string reference_choice(const std::string& key) {
  return key == "compat.loss_dtype" || key == "compat.rtn_dtype" ? "model" : "reference";
}

// All methods in play: the cell's own and those of its rules.
std::set<std::string> methods_of(const Values& values) {
  std::set<std::string> methods;
  if (const auto own = values.find("method.name"); own != values.end())
    methods.insert(own->second.get<std::string>());
  if (const auto rules = values.find("overrides"); rules != values.end())
    for (const json& rule : rules->second)
      if (rule.contains("method.name")) methods.insert(rule["method.name"].get<std::string>());
  return methods;
}

bool rules_search_grids(const Values& values) {
  if (const auto rules = values.find("overrides"); rules != values.end())
    for (const json& rule : rules->second)
      if (rule.contains("quant.grid_search") && rule["quant.grid_search"] != "none") return true;
  return false;
}

// Keys of `method` that belong to one method only.
const std::map<std::string, std::string>& own_keys() {
  static const std::map<std::string, std::string> keys = {{"method.command", "external"},
                                                          {"method.outlier_first", "obq"},
                                                          {"method.step_by_step", "gptq"},
                                                          {"method.awq_protocol", "awq"},
                                                          {"method.alpha_grid", "awq"},
                                                          {"method.clip", "awq"},
                                                          {"method.clip_steps", "awq"},
                                                          {"method.clip_shrink", "awq"},
                                                          {"method.outlier_threshold", "llm_int8"}};
  return keys;
}

// Keys that say how codes are solved for with H, which AWQ does not do.
bool steers_a_solver(const std::string& key) {
  for (const char* own : {"damping", "block_size", "act_order", "static_groups", "true_sequential",
                          "solver", "compute", "precision", "on_failure", "order"})
    if (key == std::string("method.") + own) return true;
  return key == "compat.group_grid" || key == "compat.dead_columns";
}

}  // namespace

// Without these keys cells keep their id.
bool is_absent_at_default(const std::string& key) {
  return key == "method.order" || key == "overrides" || key == "quant.head" ||
         key == "quant.embedding" || key == "method.rows" || key == "method.layers" ||
         key == "model.checkpoint_format" || key == "compat.forward";
}

bool method_uses(const std::string& method, const std::string& key) {
  if (method == "none") return false;
  // Of a sample, every method is asked for the same rows and layers.
  if (key == "method.rows" || key == "method.layers") return true;
  // Its grid is its own: bits and groups say nothing about it.
  if (method == "llm_int8")
    return key == "overrides" || key == "method.outlier_threshold" ||
           starts_with(key, "calibration.");
  if (method == "awq" && steers_a_solver(key)) return false;
  if (starts_with(key, "quant.") || key == "overrides") return true;
  if (method == "rtn") return key == "compat.one_sided" || starts_with(key, "compat.rtn_");
  if (const auto own = own_keys().find(key); own != own_keys().end()) return own->second == method;
  // Its grids are fixed before it starts, and it knows no blocks.
  if (method == "obq" &&
      (key == "method.block_size" || key == "method.static_groups" || key == "compat.group_grid"))
    return false;
  return true;
}

namespace {

// Whether `order` is what all methods in play do by themselves.
bool is_own_order(const Values& values, const json& order) {
  for (const std::string& method : methods_of(values))
    if (method_uses(method, "method.order") && order != (method == "obq" ? "greedy" : "natural"))
      return false;
  return true;
}

// Whether rounding in the forward pass is a choice: only BLOOM's differs. Of files it is not known
// yet what they hold.
bool may_round_in_two_ways(const Values& values) {
  for (const char* key : {"model.synthetic.like", "model.synthetic.architecture"})
    if (const auto made = values.find(key); made != values.end() && made->second.is_string())
      return starts_with(made->second.get<std::string>(), "bloom");
  return true;
}

bool uses(const Values& values, const std::string& key) {
  if (key == "compat.forward") return may_round_in_two_ways(values);
  if (starts_with(key, "model.") || starts_with(key, "evaluate.") || key == "method.name" ||
      key == "compat.loss_dtype")
    return true;
  if (values.at("method.name") == "none") return false;
  if (starts_with(key, "quant.grid_") && key != "quant.grid_search" &&
      values.at("quant.grid_search") == "none" && !rules_search_grids(values))
    return false;
  for (const std::string& method : methods_of(values))
    if (method_uses(method, key)) return true;
  return false;
}

}  // namespace

Values with_defaults(const Settings& settings, Faults& faults) {
  Values values;
  const auto base = settings.find("compat.base");
  const bool reference = base != settings.end() && base->second.value == "reference";
  for (const KeySpec& spec : key_table()) {
    if (spec.scope != Scope::kCell || spec.key == "compat.base") continue;
    const std::string evaluator = evaluator_prefix(spec.key);
    if (const auto set = settings.find(spec.key); set != settings.end()) {
      values[spec.key] = set->second.value;
    } else if (reference && starts_with(spec.key, "compat.")) {
      values[spec.key] = reference_choice(spec.key);
    } else if (!spec.default_value.is_null() && !starts_with(spec.key, "model.synthetic.") &&
               (evaluator.empty() || any_with_prefix(settings, evaluator))) {
      values[spec.key] = spec.default_value;
    }
  }
  const auto place = [&](const std::string& key) { return settings.at(key).position; };
  if (methods_of(values).contains("external") && !values.contains("method.command"))
    faults.add(place(values["method.name"] == "external" ? "method.name" : "overrides"),
               "method.command",
               "expected the command of your program with method external, got none. See "
               "docs/external.md");
  if (const auto order = settings.find("method.order"); order != settings.end()) {
    if (order->second.value != "act" && values["method.act_order"] == true)
      faults.add(order->second.position, "method.order",
                 "expected `order: act` or none beside `act_order: true`, got '" +
                     value_text(order->second.value) + "'");
    if (order->second.value == "act") {
      values["method.act_order"] = true;
      values.erase("method.order");
    }
  }
  // llm-awq searches on the dense model throughout.
  if (methods_of(values).contains("awq") && values["method.awq_protocol"] == "reference") {
    if (const auto inputs = settings.find("method.inputs");
        inputs != settings.end() && inputs->second.value == "quantized")
      faults.add(
          inputs->second.position, "method.inputs",
          "expected `inputs: dense` or none beside `awq_protocol: reference`, got 'quantized'");
    values["method.inputs"] = "dense";
  }
  for (const char* name : {"evaluate.perplexity.", "evaluate.divergence."}) {
    const std::string key = std::string(name) + "datasets";
    if (!any_with_prefix(settings, name)) continue;
    if (values.count(key) == 0 || values[key].empty()) {
      faults.add(settings.lower_bound(name)->second.position, key,
                 "expected `datasets`, got none. Add datasets: [wikitext2]");
      continue;
    }
    std::set<std::string> labels;
    for (const json& dataset : values[key]) {
      const std::string label =
          dataset.is_string() ? dataset.get<std::string>() : dataset["name"].get<std::string>();
      if (!labels.insert(label).second)
        faults.add(
            place(key), key,
            "expected each dataset once, got '" + label + "' twice. Its name names the metric");
    }
  }
  return values;
}

namespace {

// Settings, each in its own range, that would stop a method at its first layer.
void check_method(const Settings& settings, const Values& values, Faults& faults) {
  if (values.at("method.name") == "none") return;
  const auto methods = methods_of(values);
  const auto is = [&](const char* key) { return values.at(key) == true; };
  const auto fault = [&](const std::string& key, const std::string& expected) {
    faults.add(settings.at(key).position, key, expected);
  };
  if (values.at("method.rows") != "all")
    for (const char* method : {"awq", "llm_int8"})
      if (methods.contains(method))
        fault("method.rows", std::string("expected all rows for ") + method +
                                 ", which does not solve rows on their own, got " +
                                 value_text(values.at("method.rows")) + ". Leave it out");
  const bool in_sequence =
      is("method.true_sequential") &&
      std::any_of(methods.begin(), methods.end(), [](const std::string& method) {
        return method_uses(method, "method.true_sequential");
      });
  if (methods.contains("awq") && in_sequence)
    fault("method.true_sequential",
          "expected false beside awq, which looks at a block as a whole, got true");
  const auto order = values.find("method.order");
  const bool forced =
      is("method.act_order") || (order != values.end() && order->second != "greedy");
  if (methods.contains("obq") && is("method.outlier_first") && forced)
    fault("method.outlier_first",
          "expected false beside an order that all rows share, got true. Use order: greedy");
  const double candidates =
      values.at("method.clip_steps").get<double>() * values.at("method.clip_shrink").get<double>();
  if (methods.contains("awq") && is("method.clip") && candidates < 2)
    fault(settings.contains("method.clip_shrink") ? "method.clip_shrink" : "method.clip_steps",
          "expected clip_steps x clip_shrink of at least 2, since the first candidate is not to "
          "clip, got " +
              value_text(values.at("method.clip_steps")) + " x " +
              value_text(values.at("method.clip_shrink")) + ". Use clip: false");
  for (const char* end : {"quant.head", "quant.embedding"})
    if (values.at("method.name") == "llm_int8" && values.at(end) != "none")
      fault(end, "expected none with llm_int8, which keeps both ends of the model dense, got " +
                     value_text(values.at(end)));
}

// Where the keys of `quant`, each in its own range, contradict each other or a rule.
void check_quant(const Settings& settings, const Values& values, Faults& faults) {
  ResolvedSettings resolved;
  for (const auto& [key, value] : values) {
    const KeySpec& spec = *find_key(key);
    if (starts_with(key, "quant.") && spec.bind) spec.bind(resolved, value);
  }
  const auto check = [&](const QuantConfig& quant, const std::string& method,
                         const std::string& section, const std::string& fallback) {
    try {
      quant.validate(section);
      // Both answer with codes on a grid of equal steps.
      if (quant.ternary() && (method == "awq" || method == "external"))
        throw Error(section + ".bits", "expected 2, 3, 4 or 8 for " + method + ", got ternary");
      if (quant.symmetric && method == "awq" && values.at("method.awq_protocol") == "reference")
        throw Error(section + ".symmetric",
                    "expected false with awq_protocol: reference, whose grid is asymmetric, got "
                    "true. Use awq_protocol: matched");
    } catch (const Error& error) {
      auto at = settings.find(error.where());
      if (at == settings.end()) at = settings.find(fallback);
      const std::string message = std::string(error.what()).substr(error.where().size() + 3);
      faults.add(at == settings.end() ? Position{} : at->second.position, error.where(), message);
    }
  };
  if (values.at("method.name") != "none")
    check(resolved.quant, values.at("method.name"), "quant", "quant.bits");
  const auto rules = values.find("overrides");
  if (rules == values.end() || values.at("method.name") == "none") return;
  find_key("overrides")->bind(resolved, rules->second);
  for (const OverrideRule& rule : resolved.overrides)
    if (!rule.choice.skip && rule.choice.method != "none")
      check(rule.choice.quant, rule.choice.method, "overrides.quant", "overrides");
}

}  // namespace

void check_together(const Settings& settings, const Values& values, Faults& faults) {
  if (values.count("method.name") == 0) return;
  check_quant(settings, values, faults);
  check_method(settings, values, faults);
  const auto methods = methods_of(values);
  if (const auto solver = settings.find("method.solver");
      solver != settings.end() && solver->second.value == "inverse_updates")
    for (const std::string& method : methods)
      if (method != "gptq" && method_uses(method, "method.solver"))
        faults.add(solver->second.position, "method.solver",
                   "expected fast or reference for " + method +
                       ", got 'inverse_updates', which only gptq has");
  if (const auto order = values.find("method.order");
      order != values.end() && order->second == "greedy")
    for (const std::string& method : methods)
      if (method != "obq" && method_uses(method, "method.order"))
        faults.add(settings.at("method.order").position, "method.order",
                   "expected natural, act, reverse or random:SEED for " + method +
                       ", got 'greedy', which only obq has");
}

Values identity(const Values& full) {
  Values result;
  for (const auto& [key, value] : full) {
    const KeySpec& spec = *find_key(key);
    // `none` must not lose the evaluators of later work, and equal cells must keep their id when
    // later work adds keys.
    const bool later_default = spec.planned == std::vector<std::string>{"*"} &&
                               value == spec.default_value && !starts_with(key, "evaluate.");
    if (key == "method.order" && is_own_order(full, value)) continue;
    if (is_absent_at_default(key) && value == spec.default_value) continue;
    if (!later_default && uses(full, key)) result[key] = value;
  }
  return result;
}

std::string skip_reason(const Values& cell, const Settings& run,
                        const std::vector<std::string>& methods,
                        const std::vector<std::string>& evaluators) {
  std::vector<std::string> missing;
  const auto need = [&](const std::string& what) {
    if (std::find(missing.begin(), missing.end(), what) == missing.end()) missing.push_back(what);
  };
  for (const std::string& method : methods_of(cell))
    if (std::find(methods.begin(), methods.end(), method) == methods.end())
      need("method.name " + method);
  if (const auto dataset = cell.find("calibration.dataset");
      dataset != cell.end() && dataset->second.is_array())
    need("calibration.dataset with several datasets");
  for (const auto& [key, value] : cell) {
    if (const std::string prefix = evaluator_prefix(key); !prefix.empty()) {
      const std::string name = prefix.substr(9, prefix.size() - 10);
      if (std::find(evaluators.begin(), evaluators.end(), name) == evaluators.end()) {
        need("evaluate." + name);
        continue;
      }
    }
    if (const std::string what = planned_value(*find_key(key), value); !what.empty()) need(what);
    if (key != "overrides") continue;
    for (const json& rule : value)
      for (const auto& [rule_key, set] : rule.items())
        if (const KeySpec* spec = find_key(rule_key))
          if (const std::string what = planned_value(*spec, set); !what.empty()) need(what);
  }
  for (const auto& [key, setting] : run) {
    const KeySpec& spec = *find_key(key);
    if (spec.scope != Scope::kRun) continue;
    if (const std::string what = planned_value(spec, setting.value); !what.empty()) need(what);
  }
  return missing.empty() ? "" : "not supported yet: " + join(missing, ", ");
}

}  // namespace gptqb
