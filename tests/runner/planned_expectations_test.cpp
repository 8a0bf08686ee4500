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

}  // namespace
}  // namespace gptqb::test
