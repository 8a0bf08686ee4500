// Settings that are each in range and cannot stand together: errors before any work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/resolve.h"
#include "tests/runner/planned.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;

// Each value is in the range of its key, but they cannot stand together; named before any work.
TEST(Plan, QuantSettingsThatContradictEachOtherAreErrors) {
  EXPECT_EQ(fault_of("method: {name: gptq}\nquant: {bits: ternary, group_size: 4}\n"),
            "[p.yaml:4:36 quant.group_size] expected -1 or at least 8 for ternary, got 4");
  EXPECT_THAT(fault_of("method: {name: rtn}\nquant: {bits: ternary, grid_search: mse}\n"),
              HasSubstr("quant.grid_search] expected none for ternary"));
  EXPECT_THAT(fault_of("method: {name: rtn}\nquant: {grid_search: mse}\n"
                       "overrides: [{match: a, quant.bits: ternary}]\n"),
              HasSubstr("overrides.quant.grid_search] expected none for ternary"));
  for (const char* method : {"awq", "external, command: x"})
    EXPECT_THAT(fault_of("method: {name: " + std::string(method) + "}\nquant: {bits: ternary}\n"),
                HasSubstr("quant.bits] expected 2, 3, 4 or 8 for "));
  EXPECT_THAT(fault_of("method: {name: gptq}\n"
                       "overrides: [{match: a, method.name: awq, quant.bits: ternary}]\n"),
              HasSubstr("overrides.quant.bits] expected 2, 3, 4 or 8 for awq, got ternary"));
  EXPECT_THAT(fault_of("method: {name: awq, awq_protocol: reference}\nquant: {symmetric: true}\n"),
              HasSubstr("quant.symmetric] expected false with awq_protocol: reference"));
  for (const std::string share : {"0", "1"})
    EXPECT_THAT(
        fault_of("method: {name: gptq}\nquant: {grid_search: mse, grid_shrink: " + share + "}\n"),
        HasSubstr("quant.grid_shrink] expected a number above 0 and below 1, got " + share));
  EXPECT_EQ(fault_of("method: {name: none}\nquant: {bits: ternary, group_size: 4}\n"),
            "nothing was thrown");
}

TEST(Plan, ContradictionsAreErrors) {
  EXPECT_EQ(fault_of("method: {name: gptq, act_order: true, order: reverse}\n"),
            "[p.yaml:3:46 method.order] expected `order: act` or none beside `act_order: true`, "
            "got 'reverse'");
  EXPECT_TRUE(plan("method: {name: gptq, order: act}\n").cells[0].cell.method().act_order);
  EXPECT_EQ(plan("method: {name: gptq, order: act}\n").cells[0].cell.id(),
            plan("method: {name: gptq, act_order: true}\n").cells[0].cell.id());
  EXPECT_EQ(
      fault_of("method: {name: gptq, order: greedy}\n"),
      "[p.yaml:3:29 method.order] expected natural, act, reverse or random:SEED for gptq, got "
      "'greedy', which only obq has");
  EXPECT_EQ(fault_of("method: {name: obq, order: greedy}\n"), "nothing was thrown");
  EXPECT_EQ(fault_of("method: {name: obq, solver: inverse_updates}\n"),
            "[p.yaml:3:29 method.solver] expected fast or reference for obq, got "
            "'inverse_updates', which only gptq has");
  EXPECT_EQ(fault_of("method: {name: gptq, solver: inverse_updates}\n"), "nothing was thrown");
  EXPECT_THAT(fault_of("method: {name: gptq, order: random:-1}\n"), HasSubstr("random:SEED"));
  EXPECT_THAT(fault_of("method: {name: gptq}\nevaluate: [{perplexity: {seqlen: 8}}]\n"),
              HasSubstr("expected `datasets`, got none"));
  EXPECT_THAT(fault_of("method: {name: gptq}\nevaluate: [{perplexity: {datasets: [c4, c4]}}]\n"),
              HasSubstr("expected each dataset once, got 'c4' twice"));
}

// Settings that would stop a method at its first layer, after the model was read.
TEST(Plan, WhatAMethodCannotDoIsAnErrorBeforeAnyWork) {
  EXPECT_EQ(fault_of("method: {name: awq, rows: 8}\n"),
            "[p.yaml:3:27 method.rows] expected all rows for awq, which does not solve rows on "
            "their own, got 8. Leave it out");
  EXPECT_THAT(fault_of("method: {rows: 8}\nsweep: {method.name: [rtn, llm_int8]}\n"),
              HasSubstr("[p.yaml:3:16 method.rows] expected all rows for llm_int8"));
  EXPECT_THAT(fault_of("method: {name: gptq, rows: 8}\n"
                       "overrides: [{match: a, method.name: awq}]\n"),
              HasSubstr("method.rows] expected all rows for awq"));
  EXPECT_EQ(fault_of("method: {rows: 8}\nsweep: {method.name: [rtn, awq]}\n"
                     "exclude: [{method.name: awq}]\n"),
            "nothing was thrown");

  const std::string rule = "overrides: [{match: a, method.name: awq}]\n";
  EXPECT_EQ(fault_of("method: {name: gptq, true_sequential: true}\n" + rule),
            "[p.yaml:3:39 method.true_sequential] expected false beside awq, which looks at a "
            "block as a whole, got true");
  // Alone, awq drops the key.
  EXPECT_EQ(fault_of("method: {name: awq, true_sequential: true}\n"), "nothing was thrown");
  EXPECT_EQ(fault_of("method: {name: rtn, true_sequential: true}\n" + rule), "nothing was thrown");

  EXPECT_EQ(fault_of("method: {name: obq, outlier_first: true, order: reverse}\n"),
            "[p.yaml:3:36 method.outlier_first] expected false beside an order that all rows "
            "share, got true. Use order: greedy");
  EXPECT_THAT(fault_of("method: {name: obq, outlier_first: true, act_order: true}\n"),
              HasSubstr("method.outlier_first] expected false"));
  EXPECT_EQ(fault_of("method: {name: obq, outlier_first: true, order: greedy}\n"),
            "nothing was thrown");

  EXPECT_EQ(fault_of("method: {name: awq, clip_shrink: 0.05}\n"),
            "[p.yaml:3:34 method.clip_shrink] expected clip_steps x clip_shrink of at least 2, "
            "since the first candidate is not to clip, got 20 x 0.05. Use clip: false");
  EXPECT_THAT(fault_of("method: {name: awq, clip_steps: 3}\n"),
              HasSubstr("method.clip_steps] expected clip_steps x clip_shrink of at least 2"));
  EXPECT_EQ(fault_of("method: {name: awq, clip: false, clip_shrink: 0}\n"), "nothing was thrown");
  EXPECT_EQ(fault_of("method: {name: rtn, clip_shrink: 0}\n"), "nothing was thrown");

  for (const std::string end : {"head", "embedding"})
    EXPECT_THAT(fault_of("method: {name: llm_int8}\nquant: {" + end + ": 4}\n"),
                HasSubstr("quant." + end +
                          "] expected none with llm_int8, which keeps both ends "
                          "of the model dense, got 4"));
}

}  // namespace
}  // namespace gptqb::test
