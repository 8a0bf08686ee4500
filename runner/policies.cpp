#include "runner/policies.h"

namespace gptqb {
namespace {

const char* choice(bool reference, const char* ours) { return reference ? "reference" : ours; }

const char* precision_name(ProductPrecision precision) {
  switch (precision) {
    case ProductPrecision::kFp32:
      return "fp32";
    case ProductPrecision::kTf32x3:
      return "tf32x3";
    case ProductPrecision::kTf32:
      return "tf32";
  }
  return "";
}

const char* float_name(bool wide) { return wide ? "float64" : "float32"; }

// What a method that solves with H does to the digits.
void add_solver_policies(const Cell& cell, std::map<std::string, std::string>& policies) {
  const MethodConfig& method = cell.method();
  // The published order of rounding: one sequence at a time through the block, and a float32
  // running mean of their products.
  const bool published = method.solver == SolverKind::kReference;
  policies["solver"] =
      choice(published, method.solver == SolverKind::kInverseUpdates ? "inverse_updates" : "fast");
  policies["hessian_sum"] = choice(published, "one_sum");
  policies["sequences_per_pass"] = published ? "one" : "many";
  if (!published) policies["solver_products_on_gpu"] = precision_name(method.precision);
  policies["compute"] = float_name(method.compute == ComputeDtype::kFloat64);
  policies["damping_order"] = "repaired, permuted, damped";  // protocol.md 5.7 and 5.8
  policies["damping_dtype"] = float_name(method.compute == ComputeDtype::kFloat64);
  policies["column_ties"] = "by_index";  // the published argsort does not say
}

}  // namespace

std::map<std::string, std::string> policies_of(const Cell& cell) {
  const CompatPolicy& compat = cell.compat();
  std::map<std::string, std::string> policies = {
      {"group_grid", choice(compat.reference_group_grid, "fresh")},
      {"one_sided", choice(compat.reference_one_sided, "full_range")},
      {"rtn_groups", choice(compat.reference_rtn_groups, "honour")},
      {"rtn_dtype", compat.reference_rtn_dtype ? "model" : "float32"},
      {"dead_columns", choice(compat.reference_dead_columns, "exclude")},
      {"loss_dtype", compat.reference_loss_dtype ? "model" : "float32"},
      {"matmul_float32", "ieee"},  // TF32 is off
  };
  if (!cell.dense()) {
    policies["scale_dtype"] = cell.quant().scale_dtype == ScaleDtype::kFloat16
                                  ? "float16, rounded before codes are chosen"
                                  : "float32";
    policies["rounding"] = "half_to_even";
    if (cell.method().name == "llm_int8") policies["int8_outliers"] = "per window";
  }
  if (cell.needs_calibration()) add_solver_policies(cell, policies);
  return policies;
}

}  // namespace gptqb
