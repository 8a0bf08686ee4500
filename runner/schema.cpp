#include "runner/schema.h"

#include <algorithm>

#include "common/text.h"
#include "runner/resolve.h"

namespace gptqb {

namespace {

using nlohmann::json;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

// A key without a typed field: read by experiment.cpp, or planned.
KeySpec plain(std::string key, KeyType type, Scope scope, std::string default_text,
              std::string meaning) {
  KeySpec spec;
  spec.key = std::move(key);
  spec.type = type;
  spec.scope = scope;
  spec.default_text = std::move(default_text);
  spec.meaning = std::move(meaning);
  return spec;
}

// A bool, number or text that fills `part.member`; its default is that of the struct.
template <class Part, class T>
KeySpec field(std::string key, KeyType type, Part ResolvedSettings::*part, T Part::*member,
              Range range, std::string meaning) {
  KeySpec spec;
  spec.key = std::move(key);
  spec.type = type;
  spec.range = range;
  spec.default_value = ResolvedSettings{}.*part.*member;
  spec.default_text = value_text(spec.default_value);
  spec.meaning = std::move(meaning);
  spec.bind = [part, member](ResolvedSettings& settings, const json& value) {
    settings.*part.*member = value.get<T>();
  };
  return spec;
}

template <class Part>
KeySpec boolean(std::string key, Part ResolvedSettings::*part, bool Part::*member,
                std::string meaning) {
  return field(std::move(key), KeyType::kBool, part, member, {}, std::move(meaning));
}

template <class Part>
KeySpec integer(std::string key, Part ResolvedSettings::*part, int64_t Part::*member, double min,
                std::string meaning) {
  return field(std::move(key), KeyType::kInteger, part, member, {min, kUnbounded},
               std::move(meaning));
}

// An enum (or a bool spelled as words) that fills `part.member`.
template <class Part, class Enum>
KeySpec choice(std::string key, Part ResolvedSettings::*part, Enum Part::*member,
               Choices<Enum> choices, std::string meaning) {
  KeySpec spec;
  spec.key = std::move(key);
  spec.type = KeyType::kChoice;
  std::vector<std::pair<std::string, Enum>> known;
  for (const auto& [word, value] : choices) {
    spec.words.push_back(word);
    known.emplace_back(word, value);
    if (value == ResolvedSettings{}.*part.*member) spec.default_value = word;
  }
  spec.default_text = value_text(spec.default_value);
  spec.meaning = std::move(meaning);
  spec.bind = [part, member, known](ResolvedSettings& settings, const json& value) {
    for (const auto& [word, meant] : known)
      if (value == word) settings.*part.*member = meant;
  };
  return spec;
}

// One of several words that stays text.
KeySpec word(std::string key, std::vector<std::string> words, json default_value,
             std::string meaning) {
  KeySpec spec;
  spec.key = std::move(key);
  spec.type = KeyType::kChoice;
  spec.words = std::move(words);
  spec.default_value = std::move(default_value);
  spec.default_text = spec.default_value.is_null() ? "" : value_text(spec.default_value);
  spec.meaning = std::move(meaning);
  return spec;
}

// Of a model's text settings.
KeySpec model_word(std::string key, std::string ModelSpec::*member, std::vector<std::string> words,
                   std::string meaning) {
  KeySpec spec = word(std::move(key), std::move(words), ModelSpec{}.*member, std::move(meaning));
  spec.bind = [member](ResolvedSettings& settings, const json& value) {
    settings.model.*member = value.get<std::string>();
  };
  return spec;
}

// Bits of an end of the model; `none` leaves it dense.
KeySpec model_end(std::string key, std::optional<int64_t> ResolvedSettings::*bits,
                  std::string meaning) {
  KeySpec spec = word(std::move(key), {"none", "2", "3", "4", "8"}, "none", std::move(meaning));
  spec.bind = [bits](ResolvedSettings& settings, const json& value) {
    settings.*bits = value.is_string() ? std::nullopt : std::optional(value.get<int64_t>());
  };
  return spec;
}

// No value of `spec` but the default works yet.
KeySpec planned(KeySpec spec) {
  spec.planned = {"*"};
  return spec;
}

KeySpec planned(KeySpec spec, std::vector<std::string> values) {
  spec.planned = std::move(values);
  return spec;
}

KeySpec with_default(KeySpec spec, json value) {
  spec.default_text = value_text(value);
  spec.default_value = std::move(value);
  return spec;
}

KeySpec with_words(KeySpec spec, std::vector<std::string> words) {
  spec.words = std::move(words);
  return spec;
}

KeySpec with_range(KeySpec spec, double min, double max = kUnbounded) {
  spec.range = {min, max};
  return spec;
}

KeySpec with_arity(KeySpec spec, Arity arity) {
  spec.arity = arity;
  return spec;
}

KeySpec with_bind(KeySpec spec, std::function<void(ResolvedSettings&, const json&)> bind) {
  spec.bind = std::move(bind);
  return spec;
}

// The evaluator `name` of a cell, made where it is first mentioned.
EvaluatorSpec& evaluator(ResolvedSettings& settings, const std::string& name) {
  for (EvaluatorSpec& spec : settings.evaluators)
    if (spec.name == name) return spec;
  EvaluatorSpec spec;
  spec.name = name;
  settings.evaluators.push_back(spec);
  return settings.evaluators.back();
}

DatasetSpec dataset_from_json(const json& value) {
  if (value.is_string()) return DatasetSpec::parse(value.get<std::string>());
  DatasetSpec spec;
  spec.name = value.at("name").get<std::string>();
  spec.source = expand_variables(value.at("source").get<std::string>());
  if (value.contains("join")) spec.join = value.at("join").get<std::string>();
  if (value.contains("field")) spec.field = value.at("field").get<std::string>();
  return spec;
}

void bind_mixture(ResolvedSettings& settings, const json& value) {
  settings.calibration.datasets.clear();
  if (!value.is_array()) {
    settings.calibration.datasets.push_back({dataset_from_json(value), 1});
    return;
  }
  for (const json& part : value)
    settings.calibration.datasets.push_back(
        {dataset_from_json(part.at("dataset")), part.at("share").get<double>()});
}

// `evaluate.NAME.datasets`, `.seqlen` and `.max_windows`: what every evaluator on token windows
// takes.
void append_window_options(const std::string& name, const std::string& datasets_meaning,
                           std::vector<KeySpec>& table) {
  const std::string prefix = "evaluate." + name + ".";
  table.push_back(with_bind(with_arity(plain(prefix + "datasets", KeyType::kDataset, Scope::kCell,
                                             "required", datasets_meaning),
                                       Arity::kList),
                            [name](ResolvedSettings& settings, const json& value) {
                              EvaluatorSpec& spec = evaluator(settings, name);
                              spec.datasets.clear();
                              for (const json& entry : value)
                                spec.datasets.push_back(dataset_from_json(entry));
                            }));
  table.push_back(with_bind(with_range(with_default(plain(prefix + "seqlen", KeyType::kInteger,
                                                          Scope::kCell, "", "tokens a window"),
                                                    EvaluatorSpec{}.seqlen),
                                       2),
                            [name](ResolvedSettings& settings, const json& value) {
                              evaluator(settings, name).seqlen = value.get<int64_t>();
                            }));
  table.push_back(with_bind(
      with_range(with_default(plain(prefix + "max_windows", KeyType::kInteger, Scope::kCell, "",
                                    "windows of each text, from its start; 0: all"),
                              EvaluatorSpec{}.max_windows),
                 0),
      [name](ResolvedSettings& settings, const json& value) {
        evaluator(settings, name).max_windows = value.get<int64_t>();
      }));
}

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

void bind_order(ResolvedSettings& settings, const json& value) {
  static const std::map<std::string, ColumnOrder> kOrders = {{"natural", ColumnOrder::kNatural},
                                                             {"act", ColumnOrder::kAct},
                                                             {"reverse", ColumnOrder::kReverse},
                                                             {"greedy", ColumnOrder::kGreedy}};
  const auto text = value.get<std::string>();
  const auto known = kOrders.find(text);
  settings.method.order = known != kOrders.end() ? known->second : ColumnOrder::kRandom;
  if (known == kOrders.end())
    settings.method.order_seed = *parse_integer(text.substr(text.find(':') + 1));
}

void append_document_and_model(std::vector<KeySpec>& table) {
  table.push_back(
      plain("name", KeyType::kText, Scope::kDocument, "required",
            "lower-case letters, digits, `_` and `-`; results go to a folder of this name"));
  table.push_back([] {
    KeySpec spec =
        word("tier", {"smoke", "base", "full"}, "full",
             "the `--tier` that runs this document; a file may hold one document per tier, "
             "parted by `---`. Without `--tier` all of them run");
    spec.scope = Scope::kDocument;
    return spec;
  }());
  table.push_back(with_bind(
      plain("model.path", KeyType::kPath, Scope::kCell, "this or model.synthetic",
            "Hugging Face folder (config.json, safetensors, tokenizer); relative paths start "
            "at the working directory"),
      [](ResolvedSettings& settings, const json& value) {
        settings.model.path_unexpanded = value.get<std::string>();
        settings.model.path = expand_variables(settings.model.path_unexpanded);
      }));
  table.push_back(model_word("model.dtype", &ModelSpec::dtype,
                             {"auto", "float16", "bfloat16", "float32"},
                             "dtype of weights and activations; auto: the checkpoint's"));
  table.push_back(planned(model_word("model.checkpoint_format", &ModelSpec::checkpoint_format,
                                     {"auto", "gptq", "gptq_v2", "compressed-tensors"},
                                     "how a packed folder is read, against its own label")));
  table.push_back(
      planned(model_word("model.backend", &ModelSpec::backend, {"auto", "dense", "packed"},
                         "packed: products of packed weights by kernels; dense: of "
                         "dequantized weights"),
              {"packed"}));
  const std::string synthetic = "model.synthetic.";
  table.push_back(planned(plain(synthetic + "like", KeyType::kText, Scope::kCell, "-",
                                "synthetic weights at the shape of a published model")));
  table.push_back(planned(plain(synthetic + "architecture", KeyType::kText, Scope::kCell, "-",
                                "with the sizes below, instead of `like`")));
  for (const char* size : {"hidden_size", "intermediate_size", "heads", "kv_heads", "vocab_size"})
    table.push_back(planned(with_range(
        plain(synthetic + size, KeyType::kInteger, Scope::kCell, "-", "size of a synthetic model"),
        1)));
  table.push_back(planned(with_range(
      with_default(plain(synthetic + "seed", KeyType::kInteger, Scope::kCell, "", "of the weights"),
                   0),
      0)));
  table.push_back(
      planned(with_words(with_range(with_default(plain(synthetic + "layers", KeyType::kInteger,
                                                       Scope::kCell, "", "blocks that are made"),
                                                 "all"),
                                    1),
                         {"all"})));
}

void append_calibration(std::vector<KeySpec>& table) {
  const auto calibration = &ResolvedSettings::calibration;
  table.push_back(
      with_bind(with_default(plain("calibration.dataset", KeyType::kMixture, Scope::kCell, "",
                                   "text the statistics are taken on"),
                             "c4"),
                bind_mixture));
  table.push_back(
      integer("calibration.samples", calibration, &CalibrationSpec::samples, 1, "windows"));
  table.push_back(
      integer("calibration.seqlen", calibration, &CalibrationSpec::seqlen, 8, "tokens a window"));
  table.push_back(integer("calibration.seed", calibration, &CalibrationSpec::seed, 0,
                          "of the draw, as Python's random.seed"));
  table.push_back(integer("calibration.heldout", calibration, &CalibrationSpec::heldout, 0,
                          "more windows of the same dataset, disjoint from those, never in H; for "
                          "`relative_error_heldout`"));
  table.push_back(
      planned(choice("calibration.draw", calibration, &CalibrationSpec::draw,
                     {{"reference", Draw::kReference},
                      {"disjoint", Draw::kDisjoint},
                      {"variable", Draw::kVariable}},
                     "reference: the published random windows, overlaps allowed; disjoint: none; "
                     "variable: whole documents of any length"),
              {"variable"}));
}

void append_method(std::vector<KeySpec>& table) {
  const auto method = &ResolvedSettings::method;
  KeySpec name = word("method.name", {"none", "rtn", "gptq", "obq", "awq", "llm_int8", "external"},
                      nullptr, "how codes are found; `none` is the dense model");
  name.default_text = "required";
  table.push_back(with_bind(name, [](ResolvedSettings& settings, const json& value) {
    settings.method.name = value.get<std::string>();
  }));
  table.push_back(field("method.damping", KeyType::kFloat, method, &MethodConfig::damping, {0, 1},
                        "share of the mean of diag(H) that is added to the diagonal"));
  table.push_back(integer("method.block_size", method, &MethodConfig::block_size, 1,
                          "columns per block of the sweep"));
  table.push_back(
      boolean("method.act_order", method, &MethodConfig::act_order, "columns by falling diag(H)"));
  table.push_back(boolean("method.static_groups", method, &MethodConfig::static_groups,
                          "grids of all groups from the original weights, before the sweep"));
  table.push_back(boolean("method.true_sequential", method, &MethodConfig::true_sequential,
                          "statistics of a stage see the quantized stages before it"));
  table.push_back(choice("method.solver", method, &MethodConfig::solver,
                         {{"fast", SolverKind::kFast},
                          {"reference", SolverKind::kReference},
                          {"inverse_updates", SolverKind::kInverseUpdates}},
                         "fast: left-looking; reference: the published algorithm step by step; "
                         "inverse_updates: gptq before the paper's third step, for its ablation"));
  table.push_back(choice("method.compute", method, &MethodConfig::compute,
                         {{"float32", ComputeDtype::kFloat32}, {"float64", ComputeDtype::kFloat64}},
                         "dtype of the solver"));
  table.push_back(
      choice("method.precision", method, &MethodConfig::precision,
             {{"fp32", ProductPrecision::kFp32},
              {"tf32x3", ProductPrecision::kTf32x3},
              {"tf32", ProductPrecision::kTf32}},
             "products on a GPU of the fast solver and its Hessians; tf32x3 is as exact as fp32"));
  table.push_back(choice("method.on_failure", method, &MethodConfig::on_failure,
                         {{"raise_damping", OnFailure::kRaiseDamping},
                          {"error", OnFailure::kError},
                          {"rtn", OnFailure::kRtn}},
                         "what happens when the damped H cannot be factored"));
  table.push_back(with_bind(
      with_words(
          with_range(with_default(plain("method.rows", KeyType::kInteger, Scope::kCell, "",
                                        "rows of each linear that are solved, evenly spaced; the "
                                        "others keep RTN codes, errors count the solved ones only, "
                                        "and the model is not evaluated"),
                                  "all"),
                     1),
          {"all"}),
      [](ResolvedSettings& settings, const json& value) {
        settings.method.rows = value.is_string() ? 0 : value.get<int64_t>();
      }));
  table.push_back(field("method.layers", KeyType::kText, method, &MethodConfig::layers, {},
                        "glob of the layers that are quantized; all others stay dense"));
  KeySpec order = word("method.order", {"natural", "act", "reverse", "greedy", "random:SEED"},
                       nullptr, "order in which columns are quantized; greedy: obq only");
  order.default_text = "natural; obq: greedy";
  table.push_back(with_bind(order, bind_order));
  table.push_back(
      choice("method.inputs", method, &MethodConfig::inputs,
             {{"quantized", StatsInputs::kQuantized}, {"dense", StatsInputs::kDense}},
             "whose outputs feed a block's statistics: quantized or dense earlier blocks"));
  table.push_back(with_bind(
      plain("method.command", KeyType::kPath, Scope::kCell, "-",
            "with `method.name: external`: the program that quantizes and its arguments; `{input}` "
            "and `{output}` become paths (docs/external.md)"),
      [](ResolvedSettings& settings, const json& value) {
        settings.method.command = expand_variables(value.get<std::string>());
      }));
  table.push_back(boolean("method.outlier_first", method, &MethodConfig::outlier_first,
                          "obq: weights that round by more than half a step before all others"));
  table.push_back(choice("method.awq_protocol", method, &MethodConfig::awq_reference,
                         {{"matched", false}, {"reference", true}},
                         "awq: tokens and grid rule of gptq, or the choices of llm-awq"));
  table.push_back(integer("method.alpha_grid", method, &MethodConfig::alpha_grid, 1,
                          "awq: exponents tried, i / alpha_grid"));
  table.push_back(boolean("method.clip", method, &MethodConfig::clip, "awq: search clipping"));
  table.push_back(integer("method.clip_steps", method, &MethodConfig::clip_steps, 1,
                          "awq: clipping candidates are max |w| (1 - i / clip_steps)"));
  table.push_back(field("method.clip_shrink", KeyType::kFloat, method, &MethodConfig::clip_shrink,
                        {0, 1}, "awq: share of the candidates that is tried"));
  table.push_back(field("method.outlier_threshold", KeyType::kFloat, method,
                        &MethodConfig::outlier_threshold, {0, kUnbounded},
                        "llm_int8: inputs of at least this size keep their column in model.dtype"));
}

void append_run(std::vector<KeySpec>& table) {
  KeySpec dump =
      word("dump", {"hessians"}, json::array(), "writes H of each layer beside the results");
  dump.arity = Arity::kList;
  dump.scope = Scope::kRun;
  dump.default_text = "[]";
  table.push_back(dump);
  table.push_back(
      with_default(plain("resume", KeyType::kBool, Scope::kRun, "",
                         "keep finished blocks, so that an interrupted run goes on from them"),
                   true));
  for (const char* memory : {"device_memory", "host_memory"})
    table.push_back(planned(
        with_words(with_range(with_default(plain(std::string("limits.") + memory, KeyType::kFloat,
                                                 Scope::kRun, "", "GiB the memory plan may use"),
                                           "all"),
                              std::numeric_limits<double>::min()),
                   {"all"})));
}

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
}

void append_evaluate(std::vector<KeySpec>& table) {
  table.push_back(with_bind(
      with_arity(
          with_default(plain("overrides", KeyType::kRules, Scope::kCell, "",
                             "`{match: glob, skip, quant.*, method.name}`: settings of the layers "
                             "whose full name matches; the first match wins"),
                       json::array()),
          Arity::kList),
      bind_rules));
  table.push_back(plain("evaluate", KeyType::kStructure, Scope::kDocument, "[]",
                        "list of evaluators, each `name: {options}`"));
  const std::string perplexity = "evaluate.perplexity.";
  append_window_options("perplexity", "texts that are scored", table);
  table.push_back(with_bind(
      with_words(with_range(with_default(plain(perplexity + "batch", KeyType::kInteger,
                                               Scope::kCell, "", "windows that run together"),
                                         "auto"),
                            1),
                 {"auto"}),
      [](ResolvedSettings& settings, const json& value) {
        evaluator(settings, "perplexity").batch = value.is_string() ? 0 : value.get<int64_t>();
      }));
  table.push_back(with_bind(
      word(perplexity + "bos", {"tokenizer", "none", "every_window"}, "tokenizer",
           "start token: as the tokenizer puts it, nowhere, or at the head of each window"),
      [](ResolvedSettings& settings, const json& value) {
        evaluator(settings, "perplexity").bos = value == "none"           ? BosPolicy::kNone
                                                : value == "every_window" ? BosPolicy::kEveryWindow
                                                                          : BosPolicy::kTokenizer;
      }));
  append_window_options("divergence", "texts on which outputs are compared with the dense model's",
                        table);
  const std::string latency = "evaluate.decode_latency.";
  table.push_back(
      planned(with_range(with_default(plain(latency + "prompt", KeyType::kInteger, Scope::kCell, "",
                                            "tokens before the first timed one"),
                                      0),
                         0)));
  table.push_back(planned(with_range(with_default(plain(latency + "generate", KeyType::kInteger,
                                                        Scope::kCell, "", "tokens that are timed"),
                                                  128),
                                     1)));
  table.push_back(planned(with_range(
      with_default(
          plain(latency + "batch", KeyType::kInteger, Scope::kCell, "", "sequences at once"), 1),
      1)));
  table.push_back(
      planned(with_default(plain(latency + "teacher_forced", KeyType::kBool, Scope::kCell, "",
                                 "feed given tokens instead of generated ones"),
                           false)));
}

void append_products(std::vector<KeySpec>& table) {
  const auto kernel = [&](const char* name, KeyType type, Arity arity,
                          std::vector<std::string> words, double min, const char* meaning) {
    KeySpec spec = plain(std::string("kernels.") + name, type, Scope::kProduct, "-", meaning);
    spec.arity = arity;
    spec.words = std::move(words);
    spec.range.min = min;
    table.push_back(planned(spec));
  };
  kernel("like", KeyType::kText, Arity::kOne, {}, 0,
         "kernel throughput at the shapes of a published model");
  kernel("shapes", KeyType::kText, Arity::kList, {}, 0, "`KxN`, instead of `like`");
  kernel("m", KeyType::kInteger, Arity::kOneOrList, {}, 1, "rows of the activations");
  kernel("bits", KeyType::kChoice, Arity::kOneOrList, {"2", "3", "4", "8"}, 0, "bits of a code");
  kernel("group_size", KeyType::kInteger, Arity::kOneOrList, {"-1"}, 1,
         "columns that share a scale");
  kernel("symmetric", KeyType::kBool, Arity::kOneOrList, {}, 0, "fixed zero point");
  kernel("act_order", KeyType::kBool, Arity::kOneOrList, {}, 0, "columns with a group index");
  kernel("dtype", KeyType::kChoice, Arity::kOneOrList, {"float16", "bfloat16"}, 0,
         "of the activations");
  kernel("cold", KeyType::kBool, Arity::kOne, {}, 0, "flush the cache before each repetition");

  KeySpec path =
      plain("save.path", KeyType::kPath, Scope::kProduct, "-", "folder of the packed checkpoint");
  table.push_back(planned(path));
  KeySpec format =
      word("save.format", {"gptq", "gptq_v2"}, nullptr, "zero points in v1 or v2 convention");
  format.default_text = "gptq if symmetric, else gptq_v2";
  format.scope = Scope::kProduct;
  table.push_back(planned(format));
  KeySpec shard = plain("save.shard_size", KeyType::kFloat, Scope::kProduct, "5", "GB a file");
  shard.default_value = 5.0;
  shard.range.min = std::numeric_limits<double>::min();
  table.push_back(planned(shard));

  table.push_back(plain("sweep", KeyType::kStructure, Scope::kDocument, "{}",
                        "dotted key: list of values; every combination becomes a cell"));
  table.push_back(plain("cells", KeyType::kStructure, Scope::kDocument, "-",
                        "list of maps of dotted keys, each a cell (or each crossed with `sweep`)"));
  table.push_back(plain("exclude", KeyType::kStructure, Scope::kDocument, "[]",
                        "list of maps of dotted keys: combinations left out"));
  table.push_back(plain("seeds", KeyType::kStructure, Scope::kDocument, "-",
                        "list of calibration seeds; repeats each cell with each"));
  table.push_back(
      plain("expect", KeyType::kStructure, Scope::kDocument, "[]",
            "list of `{where, metric, value with tolerance.{absolute or relative}, or at_most, or "
            "at_least, source, confidence}`; each gets a verdict"));

  KeySpec executor = word("executor.name", {"local", "slurm"}, "local", "where cells run");
  executor.scope = Scope::kRun;
  table.push_back(planned(executor, {"slurm"}));
  table.push_back(planned(with_range(
      plain("executor.workers", KeyType::kInteger, Scope::kRun, "-", "slurm: jobs"), 1)));
  for (const char* text : {"partition", "time", "gres"})
    table.push_back(planned(plain(std::string("executor.") + text, KeyType::kText, Scope::kRun, "-",
                                  "slurm: as for sbatch")));
  table.push_back(planned(with_arity(
      plain("executor.extra", KeyType::kText, Scope::kRun, "-", "slurm: more options for sbatch"),
      Arity::kList)));
}

std::vector<KeySpec> make_table() {
  std::vector<KeySpec> table;
  append_document_and_model(table);
  append_calibration(table);
  append_method(table);
  append_run(table);
  append_quant(table);
  append_compat(table);
  append_evaluate(table);
  append_products(table);
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
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

// The full key that `key`, found nowhere, most likely means; "" if nothing is near.
std::string suggestion(const std::string& section, const std::string& key) {
  const std::string prefix = section.empty() ? "" : section + ".";
  const std::string last = last_part(key);
  for (const KeySpec& spec : key_table())
    if (last_part(spec.key) == last) return spec.key;
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
  for (const KeySpec& spec : key_table())
    if (!part.empty() && last_part(spec.key) == part) return spec.key;
  return "";
}

std::string range_text(const KeySpec& spec) {
  std::vector<std::string> parts = spec.words;
  if (spec.type == KeyType::kInteger || spec.type == KeyType::kFloat) {
    const std::string letter = spec.type == KeyType::kInteger ? "integer" : "number";
    if (spec.range.max < kUnbounded)
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
