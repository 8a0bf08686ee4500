// Expected values find the cells that they are about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/plan.h"
#include "tests/runner/planned.h"

namespace gptqb::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kExpecting =
    "evaluate: [{perplexity: {datasets: [c4]}}]\nsweep: {method.name: [none, gptq], quant.bits: "
    "[3, 4]}\nexpect:\n";

TEST(Plan, ExpectationsReachTheCellsTheyMatch) {
  const Plan made =
      plan(std::string(kExpecting) +
           "  - {where: {method.name: gptq, quant.bits: 4}, metric: perplexity.c4, value: 5, "
           "tolerance: {relative: 0.01}}\n"
           "  - {where: {method.name: gptq}, metric: layer.model.layers.0.q.loss, at_most: 9}\n"
           "  - {metric: seconds.quantize, at_most: 15}\n");
  ASSERT_EQ(made.cells.size(), 3u);
  EXPECT_EQ(made.cells[0].expectations.size(), 1u);
  EXPECT_EQ(made.cells[1].expectations.size(), 2u);
  ASSERT_EQ(made.cells[2].expectations.size(), 3u);
  EXPECT_EQ(made.cells[2].expectations[0].metric, "perplexity.c4");
}

TEST(Plan, ExpectationThatMatchesNoCellIsAnErrorThatNamesIt) {
  EXPECT_EQ(
      fault_of(
          std::string(kExpecting) +
          "  - {where: {method.name: gptq, quant.bits: 8}, metric: perplexity.c4, at_most: 5}\n"),
      "[p.yaml:6:5 expect.where] expected cells for perplexity.c4, got none that match "
      "method.name: gptq, "
      "quant.bits: 8. Cells have quant.bits 3, 4");
  EXPECT_THAT(
      fault_of(
          std::string(kExpecting) +
          "  - {where: {method.name: none, quant.bits: 4}, metric: perplexity.c4, at_most: 5}\n"),
      HasSubstr("Each value occurs, but not in one cell"));
  EXPECT_THAT(fault_of(std::string(kExpecting) +
                       "  - {where: {compat.base: default}, metric: perplexity.c4, at_most: 5}\n"),
              HasSubstr("No cell has compat.base"));
}

TEST(Plan, ExpectationOfAMetricTheCellCannotHave) {
  EXPECT_EQ(fault_of(std::string(kExpecting) + "  - {metric: perplexity.c4-neww, at_most: 5}\n"),
            "[p.yaml:6:5 expect.metric] expected one of perplexity.c4; got 'perplexity.c4-neww'. "
            "Did you mean 'perplexity.c4'?");
  EXPECT_THAT(fault_of(std::string(kExpecting) + "  - {metric: perplexty.c4, at_most: 5}\n"),
              HasSubstr("expected a metric that starts with perplexity., seconds."));
}

TEST(Plan, SetMayLeaveExpectationsWithoutACell) {
  const Plan made = plan(
      std::string(kExpecting) + "  - {where: {quant.bits: 4}, metric: perplexity.c4, at_most: 5}\n",
      {"quant.bits=8"});
  EXPECT_THAT(
      made.notes,
      ElementsAre(
          "1 of 1 expected values belong to cells that --set has changed; they get no verdict"));
}

// A published value says nothing about other text, and no verdict may pretend it does.
TEST(Plan, ValuesOnOtherDataUnderSetAreMarked) {
  const std::string text = std::string(kExpecting) +
                           "  - {where: {method.name: none}, metric: perplexity.c4, value: 5, "
                           "tolerance: {relative: 0.01}}\n"
                           "  - {where: {method.name: gptq, quant.bits: 4}, metric: perplexity.c4, "
                           "value: 6, tolerance: {relative: 0.01}}\n"
                           "  - {metric: seconds.quantize, at_most: 15}\n";
  const auto variant = [&](const std::string& set, size_t cell) {
    const Plan made = plan(text, {set});
    const auto& expectations = made.cells.at(cell).expectations;
    EXPECT_EQ(expectations.back().variant, "") << "a bound of one's own";
    return expectations.front().variant;
  };
  EXPECT_EQ(variant("evaluate.perplexity.max_windows=4", 0),
            "under --set, evaluate.perplexity.max_windows = 4");
  EXPECT_EQ(variant("evaluate.perplexity.datasets=[wikitext2]", 0),
            "under --set, evaluate.perplexity.datasets = wikitext2");
  EXPECT_EQ(variant("calibration.dataset=wikitext2@train-head", 0), "") << "dense";
  EXPECT_EQ(variant("calibration.dataset=wikitext2@train-head", 2),
            "under --set, calibration.dataset = wikitext2@train-head");
  EXPECT_EQ(variant("calibration.dataset=c4", 2), "") << "as the file has it";
  EXPECT_EQ(variant("evaluate.perplexity.batch=2", 0), "");
}

TEST(Plan, ListsWhatEachCellIsHeldAgainst) {
  const Plan made = plan(std::string(kExpecting) +
                         "  - {where: {method.name: none}, metric: perplexity.c4, value: 5.5, "
                         "tolerance: {relative: 0.01}}\n");
  EXPECT_THAT(plan_table(made), HasSubstr("perplexity.c4 5.5"));
  EXPECT_EQ(plan_totals({made, made}),
            "total: 2 experiments, 6 cells, 6 to run, 0 skipped; 1 expected value\n")
      << "the same cell, as of two tiers, counts once";
}

// Tables of tasks are planned although nothing can run them yet.
TEST(Plan, AccuracyIsNotSupportedYet) {
  const Plan made = plan(
      "method: {name: none}\nevaluate: [{accuracy: {tasks: [lambada, piqa]}}]\n"
      "expect: [{metric: accuracy.piqa, value: 62.02, tolerance: {absolute: 0.3}}]\n");
  EXPECT_EQ(made.cells.at(0).skip_reason, "not supported yet: evaluate.accuracy");
  EXPECT_EQ(made.cells.at(0).expectations.size(), 1u);
  EXPECT_THAT(fault_of("method: {name: none}\nevaluate: [{accuracy: {tasks: [lambada]}}]\n"
                       "expect: [{metric: accuracy.piqa, at_least: 1}]\n"),
              HasSubstr("expected one of accuracy.lambada"));
  EXPECT_THAT(fault_of("method: {name: none}\nevaluate: [accuracy: {}]\n"),
              HasSubstr("expected options, got none"));
}

}  // namespace
}  // namespace gptqb::test
