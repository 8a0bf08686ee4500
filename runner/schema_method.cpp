// Keys of the section `method`.
#include <map>

#include "common/options.h"
#include "methods/quantizer.h"
#include "runner/schema_sections.h"

namespace gptqb::schema {

using nlohmann::json;

namespace {

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

}  // namespace

void append_method(std::vector<KeySpec>& table) {
  const auto method = &ResolvedSettings::method;
  KeySpec name = word("method.name", quantizers().names(), nullptr,
                      "how codes are found; `none` is the dense model");
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
  table.push_back(boolean("method.step_by_step", method, &MethodConfig::step_by_step,
                          "gptq, solver reference on a GPU: one tensor operation after another, as "
                          "published, for its time; else blocks of columns in one kernel each, "
                          "with the same bits"));
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

}  // namespace gptqb::schema
