// An option that is read somewhere and dropped somewhere else is a wrong number in a table (faults
// GG-11, EH-18): each one is followed from the YAML text through the plan and the record back to
// the typed settings, for every method.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "methods/quantizer.h"
#include "runner/plan.h"
#include "runner/policies.h"
#include "runner/record.h"
#include "tests/runner/other_value.h"

namespace gptqb {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Cell cell_of(const std::string& text, const std::vector<std::string>& set) {
  const auto experiments =
      parse_experiments("name: p\nmodel: {path: /m}\n" + text, "p.yaml", {.set = set, .tier = ""});
  return make_plan(experiments.at(0),
                   {.methods = quantizers().names(), .evaluators = {"perplexity"}})
      .cells.at(0)
      .cell;
}

bool same_settings(const Cell& a, const Cell& b) {
  return a.method() == b.method() && a.quant() == b.quant() && a.head() == b.head() &&
         a.embedding() == b.embedding() && a.compat() == b.compat() &&
         a.calibration().samples == b.calibration().samples &&
         a.calibration().seqlen == b.calibration().seqlen &&
         a.calibration().seed == b.calibration().seed &&
         a.calibration().heldout == b.calibration().heldout &&
         a.calibration().draw == b.calibration().draw;
}

// The cell of a record that was written to JSON and read back.
Cell through_a_record(const Cell& cell) {
  Record record;
  record.cell_id = cell.id();
  record.experiment = "p";
  record.cell = cell.canonical();
  record.settings = cell.settings();
  const Record read = record_from_json(to_json(record), "record.json");
  EXPECT_EQ(read.settings, cell.settings());
  return Cell::from_json(read.cell);
}

bool concerns_a_layer(const std::string& key) {
  for (const char* section : {"method.", "quant.", "compat.", "calibration."})
    if (key.starts_with(section)) return key != "method.name" && key != "calibration.dataset";
  return false;
}

// Keys that say nothing to gptq because they are another method's own.
bool is_of_another_method(const std::string& key) {
  for (const char* own : {"command", "outlier_first", "awq_protocol", "alpha_grid", "clip",
                          "clip_steps", "clip_shrink", "outlier_threshold"})
    if (key == std::string("method.") + own) return true;
  return false;
}

// Pairs that are errors (Plan.WhatAMethodCannotDoIsAnErrorBeforeAnyWork).
bool is_refused(const std::string& method, const std::string& key) {
  if (key == "method.rows") return method == "awq" || method == "llm_int8";
  return method == "llm_int8" && (key == "quant.head" || key == "quant.embedding");
}

TEST(Options, EachOneComesBackFromYamlAndRecord) {
  int64_t followed = 0;
  for (const std::string& method : quantizers().names()) {
    if (method == "none") continue;
    for (const KeySpec& spec : key_table()) {
      if (!concerns_a_layer(spec.key) || !spec.bind || is_refused(method, spec.key)) continue;
      const json value = test::other_value(spec);
      if (!planned_value(spec, value).empty()) continue;
      SCOPED_TRACE(method + ", " + spec.key + ": " + value_text(value));
      // Settings of the grid search mean nothing without one.
      const bool of_search = spec.key.starts_with("quant.grid_") && spec.key != "quant.grid_search";
      const std::string text = "method: {name: " + method +
                               (method == "external" ? ", command: own" : "") + "}\n" +
                               (of_search ? "quant: {grid_search: mse}\n" : "");
      const Cell plain = cell_of(text, {});
      const Cell cell = cell_of(text, {spec.key + "=" + value_text(value)});
      if (cell.id() == plain.id()) {
        // The method does not use it; it must then be no setting of the cell at all.
        EXPECT_EQ(cell.setting(spec.key), "");
        EXPECT_TRUE(method != "gptq" || is_of_another_method(spec.key));
        continue;
      }
      ++followed;
      EXPECT_EQ(cell.setting(spec.key), value_text(value));
      EXPECT_FALSE(same_settings(cell, plain));
      const Cell read = through_a_record(cell);
      EXPECT_EQ(read.id(), cell.id());
      EXPECT_EQ(read.canonical(), cell.canonical());
      EXPECT_TRUE(same_settings(read, cell));
    }
  }
  EXPECT_GT(followed, 30);
}

TEST(Options, TernaryAndOrdersComeBack) {
  const Cell cell = cell_of(
      "method: {name: gptq, order: \"random:12\"}\nquant: {bits: ternary, group_size: 64}\n", {});
  const Cell read = through_a_record(cell);
  EXPECT_EQ(read.quant().bits, QuantConfig::kTernary);
  EXPECT_EQ(read.method().order, ColumnOrder::kRandom);
  EXPECT_EQ(read.method().order_seed, 12);
  EXPECT_EQ(read.id(), cell.id());
  EXPECT_THAT(read.summary(), HasSubstr("ternary"));
}

// `compat: reference` with the published solver: every quirk is named in the record.
TEST(Options, PublishedQuirksAreNamed) {
  const Cell cell = cell_of(
      "method: {name: gptq, solver: reference}\nquant: {scale_dtype: float32}\n"
      "compat: reference\n",
      {});
  const std::map<std::string, std::string> expected = {
      {"solver", "reference"},       {"hessian_sum", "reference"},
      {"sequences_per_pass", "one"}, {"group_grid", "reference"},
      {"one_sided", "reference"},    {"dead_columns", "reference"},
      {"rtn_groups", "reference"},   {"rtn_dtype", "model"},
      {"loss_dtype", "model"},       {"scale_dtype", "float32"},
      {"damping_dtype", "float32"},  {"compute", "float32"},
      {"column_ties", "by_index"},   {"rounding", "half_to_even"},
      {"matmul_float32", "ieee"},    {"damping_order", "repaired, permuted, damped"}};
  EXPECT_EQ(policies_of(cell), expected);

  const auto ours = policies_of(cell_of("method: {name: gptq, compute: float64}\n", {}));
  EXPECT_EQ(ours.at("solver"), "fast");
  EXPECT_EQ(ours.at("hessian_sum"), "one_sum");
  EXPECT_EQ(ours.at("damping_dtype"), "float64");
  EXPECT_EQ(ours.at("group_grid"), "fresh");
  EXPECT_THAT(ours.at("scale_dtype"), HasSubstr("float16, rounded before"));
  EXPECT_EQ(policies_of(cell_of("method: {name: rtn}\n", {})).count("solver"), 0u);
}

}  // namespace
}  // namespace gptqb
