// Rules: settings of the layers whose names match.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/cell.h"
#include "tests/runner/planned.h"

namespace gptqb::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Cell, FirstMatchingRuleWins) {
  const Cell cell = plan(
                        "method: {name: gptq}\nquant: {bits: 3, group_size: 64}\noverrides:\n"
                        "  - {match: \"model.layers.1.*\", quant.bits: 8, method.name: rtn}\n"
                        "  - {match: \"*.down_proj\", skip: true}\n"
                        "  - {match: \"*\", quant.group_size: -1}\n")
                        .cells[0]
                        .cell;
  const LayerChoice first = cell.settings_for("model.layers.1.mlp.down_proj");
  EXPECT_FALSE(first.skip);
  EXPECT_EQ(first.method, "rtn");
  EXPECT_EQ(first.quant.bits, 8);
  EXPECT_EQ(first.quant.group_size, 64);
  EXPECT_TRUE(cell.settings_for("model.layers.10.mlp.down_proj").skip);
  const LayerChoice rest = cell.settings_for("model.layers.10.mlp.up_proj");
  EXPECT_EQ(rest.method, "gptq");
  EXPECT_EQ(rest.quant.bits, 3);
  EXPECT_EQ(rest.quant.group_size, -1);
}

TEST(Cell, RulesThatMatchNothingAreNamed) {
  const Cell cell = plan(
                        "method: {name: gptq}\noverrides:\n"
                        "  - {match: \"*.q_proj\", quant.bits: 8}\n"
                        "  - {match: \"model.layers.0.q_proj\", quant.bits: 3}\n"
                        "  - {match: \"layers.9.*\", skip: true}\n")
                        .cells[0]
                        .cell;
  EXPECT_THAT(
      cell.unmatched_globs({"model.layers.0.q_proj", "model.layers.0.o_proj"}),
      ElementsAre(
          "overrides: expected 'model.layers.0.q_proj' to match a layer, got none of 2: '*.q_proj' "
          "stands "
          "before it and takes all of its layers",
          "overrides: expected 'layers.9.*' to match a layer, got none of 2. Layers are named like "
          "model.layers.0.q_proj"));
}

TEST(Plan, RuleWithAnotherMethodBringsItsNeeds) {
  EXPECT_TRUE(plan("method: {name: rtn}\noverrides: [{match: a, method.name: gptq}]\n")
                  .cells[0]
                  .cell.needs_calibration());
  EXPECT_FALSE(plan("method: {name: rtn}\noverrides: [{match: a, quant.bits: 8}]\n")
                   .cells[0]
                   .cell.needs_calibration());
  EXPECT_TRUE(plan("overrides: [{match: a, quant.bits: 8}]\nsweep: {method.name: [none, gptq]}\n")
                  .cells[0]
                  .cell.overrides()
                  .empty());
}

TEST(Plan, RulesThatOnlyDenseCellsWouldHaveAreAFault) {
  EXPECT_THAT(fault_of("method: {name: none}\noverrides: [{match: a, quant.bits: 8}]\n"),
              HasSubstr("overrides] expected a method that quantizes beside the rules, got only "
                        "none, which leaves every layer dense"));
  EXPECT_EQ(fault_of("method: {name: none}\noverrides: []\n"), "nothing was thrown");
  EXPECT_EQ(fault_of("method: {name: rtn}\noverrides: [{match: a, quant.bits: 8}]\n"),
            "nothing was thrown");
}

TEST(Cell, RulesHaveATextThatRecordsCanCarry) {
  const Cell cell = plan(
                        "method: {name: gptq}\noverrides:\n"
                        "  - {match: \"*.down_proj\", quant.group_size: -1, quant.bits: 8}\n"
                        "  - {match: \"*.up_proj\", skip: true}\n")
                        .cells[0]
                        .cell;
  EXPECT_EQ(cell.settings_for("a.down_proj").rule,
            "*.down_proj: quant.bits 8, quant.group_size -1");
  EXPECT_EQ(cell.settings_for("a.up_proj").rule, "*.up_proj: skip true");
  EXPECT_EQ(cell.settings_for("a.o_proj").rule, "");
}

// Layers that a rule takes but cannot change must not look changed.
TEST(Cell, RulesSayWhatTheirLayersDoNotUse) {
  const auto rule = [](const std::string& text) {
    return plan(text).cells.at(0).cell.settings_for("a").rule;
  };
  EXPECT_EQ(rule("method: {name: llm_int8}\noverrides: [{match: a, quant.bits: 3}]\n"),
            "a: quant.bits 3 (not used by llm_int8)");
  EXPECT_EQ(rule("method: {name: gptq}\n"
                 "overrides: [{match: a, method.name: none, quant.group_size: 64}]\n"),
            "a: method.name none, quant.group_size 64 (not used by none)");
  EXPECT_EQ(rule("method: {name: gptq}\noverrides: [{match: a, quant.grid_norm: 3}]\n"),
            "a: quant.grid_norm 3 (not used without quant.grid_search)");
  EXPECT_EQ(rule("method: {name: gptq}\n"
                 "overrides: [{match: a, quant.grid_norm: 3, quant.grid_search: mse}]\n"),
            "a: quant.grid_norm 3, quant.grid_search mse");
  EXPECT_EQ(rule("method: {name: rtn}\ncompat: {rtn_groups: reference}\n"
                 "overrides: [{match: a, quant.group_size: 64}]\n"),
            "a: quant.group_size 64 (not used under compat.rtn_groups reference)");
}

}  // namespace
}  // namespace gptqb::test
