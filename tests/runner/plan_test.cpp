// From experiments to cells: combinations, merging, what is skipped, shards.
#include "runner/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/runner/planned.h"

namespace gptqb::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> column(const Plan& plan, const std::string& key) {
  std::vector<std::string> values;
  for (const PlannedCell& planned : plan.cells) values.push_back(planned.cell.setting(key));
  return values;
}

TEST(Plan, SweepIsCartesianAndTheDenseModelIsOneCell) {
  const Plan made = plan("sweep:\n  method.name: [none, rtn, gptq]\n  quant.bits: [3, 4]\n");
  EXPECT_THAT(column(made, "method.name"), ElementsAre("none", "rtn", "rtn", "gptq", "gptq"));
  EXPECT_THAT(column(made, "quant.bits"), ElementsAre("", "3", "4", "3", "4"));
  EXPECT_EQ(made.merged, 1);
}

TEST(Plan, MethodsDropWhatTheyDoNotUse) {
  const Plan made = plan(
      "sweep:\n  method.name: [none, rtn, gptq]\n  method.damping: [0.01, 0.1]\n  "
      "compat.group_grid: [fresh, reference]\n");
  EXPECT_THAT(column(made, "method.name"),
              ElementsAre("none", "rtn", "gptq", "gptq", "gptq", "gptq"));
  const Cell& dense = made.cells[0].cell;
  EXPECT_TRUE(dense.dense());
  EXPECT_FALSE(dense.needs_calibration());
  for (const char* key : {"quant.bits", "method.damping", "calibration.dataset",
                          "compat.rtn_groups", "quant.grid_norm"})
    EXPECT_EQ(dense.setting(key), "") << key;
  EXPECT_EQ(dense.setting("compat.loss_dtype"), "float32");
  const Cell& rtn = made.cells[1].cell;
  EXPECT_FALSE(rtn.needs_calibration());
  EXPECT_EQ(rtn.setting("quant.bits"), "4");
  EXPECT_EQ(rtn.setting("calibration.dataset"), "");
  EXPECT_TRUE(made.cells[2].cell.needs_calibration());
  EXPECT_EQ(made.cells[2].cell.setting("calibration.samples"), "128");
}

TEST(Plan, SearchKeysCountOnlyWithASearch) {
  EXPECT_EQ(plan("method: {name: rtn}\nsweep: {quant.grid_norm: [2, 3]}\n").cells.size(), 1u);
  EXPECT_EQ(
      plan("method: {name: rtn}\nquant: {grid_search: mse}\nsweep: {quant.grid_norm: [2, 3]}\n")
          .cells.size(),
      2u);
}

TEST(Plan, CellsCrossedWithSweepAndSeeds) {
  const Plan made = plan(
      "cells:\n  - {method.name: rtn}\n  - {method.name: gptq, method.act_order: true}\nsweep: "
      "{quant.bits: [4, 3]}\nseeds: [0, 1]\n");
  EXPECT_THAT(column(made, "method.name"),
              ElementsAre("rtn", "rtn", "gptq", "gptq", "gptq", "gptq"));
  EXPECT_THAT(column(made, "quant.bits"), ElementsAre("4", "3", "4", "4", "3", "3"));
  EXPECT_THAT(column(made, "calibration.seed"), ElementsAre("", "", "0", "1", "0", "1"));
  EXPECT_EQ(made.merged, 2);
}

TEST(Plan, ExcludeLeavesOutWhatMatchesBeforeKeysAreDropped) {
  const std::string sweep = "sweep:\n  method.name: [none, gptq]\n  quant.bits: [3, 4]\n";
  const Plan made = plan(
      sweep +
      "exclude:\n  - {method.name: none, quant.bits: 3}\n  - {method.name: gptq, quant.bits: 4}\n");
  EXPECT_EQ(made.excluded, 2);
  EXPECT_EQ(made.merged, 0);
  EXPECT_EQ(made.cells.size(), 2u);
  EXPECT_EQ(fault_of(sweep + "exclude:\n  - {quant.bits: 8}\n"),
            "[p.yaml:7:5 exclude] expected cells to leave out, got none that match quant.bits: 8");
  EXPECT_THAT(fault_of(sweep + "exclude: [{quant.bits: 3}, {quant.bits: 4}]\n"),
              HasSubstr("`exclude` leaves out all of them"));
}

TEST(Plan, SetWinsOverSweepAndCells) {
  const Plan made =
      plan("sweep: {method.name: [rtn, gptq], quant.bits: [3, 4]}\n", {"quant.bits=8"});
  EXPECT_THAT(column(made, "quant.bits"), ElementsAre("8", "8"));
}

TEST(Plan, WhatThisBuildCannotRunIsSkippedWithTheReason) {
  const auto reason = [](const std::string& text) { return plan(text).cells.at(0).skip_reason; };
  EXPECT_EQ(reason("method: {name: gptq}\n"), "");
  EXPECT_EQ(reason("method: {name: obq}\n"), "not supported yet: method.name obq");
  EXPECT_EQ(reason("method: {name: gptq}\nquant: {bits: ternary}\n"), "");
  EXPECT_EQ(reason("method: {name: gptq, rows: 8, layers: \"*q_proj\"}\n"), "");
  EXPECT_EQ(reason("method: {name: gptq, rows: all, layers: \"*\", order: natural}\n"), "");
  EXPECT_EQ(reason("method: {name: gptq, precision: tf32}\nquant: {head: 4}\n"), "");
  EXPECT_EQ(reason("method: {name: gptq}\ncalibration: {draw: variable}\n"),
            "not supported yet: calibration.draw variable");
  EXPECT_EQ(reason("method: {name: gptq}\ncalibration: {dataset: [{dataset: c4, share: 0.5}, "
                   "{dataset: ptb, share: 0.5}]}\n"),
            "not supported yet: calibration.dataset with several datasets");
  EXPECT_EQ(reason("method: {name: gptq}\nevaluate: [{decode_latency: {}}]\n"),
            "not supported yet: evaluate.decode_latency");
  EXPECT_EQ(reason("method: {name: gptq}\nevaluate: [{divergence: {datasets: [c4]}}]\n"),
            "not supported yet: evaluate.divergence");
  EXPECT_EQ(reason("method: {name: gptq}\noverrides: [{match: a, method.name: awq}, {match: b, "
                   "quant.bits: ternary}]\n"),
            "not supported yet: method.name awq");
  EXPECT_EQ(reason("method: {name: gptq}\ndump: [hessians]\n"), "");
  EXPECT_EQ(reason("method: {name: gptq}\nexecutor: {name: slurm, partition: gpu}\n"), "");
  EXPECT_EQ(
      reason(
          "method: {name: gptq}\nexecutor: {name: local}\ndump: []\nlimits: {host_memory: all}\n"),
      "");
}

TEST(Plan, KeysOfOtherMethodsDoNotStopACell) {
  const Plan made = plan(
      "method: {alpha_grid: 10}\n"
      "sweep: {method.name: [none, rtn, gptq, awq]}\n");
  EXPECT_EQ(made.cells[0].skip_reason, "");
  EXPECT_EQ(made.cells[1].skip_reason, "");
  EXPECT_EQ(made.cells[2].skip_reason, "");
  EXPECT_EQ(made.cells[3].skip_reason, "not supported yet: method.name awq");
}

TEST(Plan, ShardsShareOutAllCells) {
  const std::string text =
      "method: {name: gptq}\nsweep: {quant.bits: [2, 3, 4, 8]}\nseeds: [0, 1]\n";
  std::vector<std::string> seen;
  for (int64_t shard = 0; shard < 3; ++shard) {
    PlanOptions options = build();
    options.shard = shard;
    options.shards = 3;
    const Plan made = plan(text, {}, options);
    EXPECT_EQ(made.other_shards + static_cast<int64_t>(made.cells.size()), 8);
    for (const PlannedCell& planned : made.cells) seen.push_back(planned.cell.id());
  }
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()).size(), 8u);

  // The order of lists in the file changes neither the split nor what is left of the plan's places.
  PlanOptions first = build();
  first.shards = 3;
  const auto ids = [](const Plan& made) {
    std::set<std::string> result;
    for (const PlannedCell& planned : made.cells) result.insert(planned.cell.id());
    return result;
  };
  const Plan turned =
      plan("method: {name: gptq}\nseeds: [1, 0]\nsweep: {quant.bits: [8, 4, 3, 2]}\n", {}, first);
  const Plan straight = plan(text, {}, first);
  EXPECT_EQ(straight.cells.size(), 3u);
  EXPECT_EQ(ids(turned), ids(straight));
  const Plan whole = plan(text);
  for (const PlannedCell& planned : straight.cells)
    EXPECT_EQ(whole.cells.at(static_cast<size_t>(planned.position)).cell.id(), planned.cell.id());
  PlanOptions wrong = build();
  wrong.shard = 3;
  wrong.shards = 3;
  EXPECT_EQ(message_of([&] { plan(text, {}, wrong); }),
            "[--shard] expected a shard from 0 to 2, got 3");
}

TEST(Plan, TableShowsIdsDifferencesAndReasons) {
  const Plan made = plan("sweep: {method.name: [none, gptq, obq], quant.bits: [3, 4]}\n");
  const std::string table = plan_table(made);
  EXPECT_THAT(
      table,
      HasSubstr(
          "p (p.yaml, tier full): 5 cells, 3 to run, 2 skipped, 1 merged with an equal one\n"));
  EXPECT_THAT(table, HasSubstr("  cell              method  bits  plan\n"));
  EXPECT_THAT(table, HasSubstr("  " + made.cells[0].cell.id() + "  none    -     run\n"));
  EXPECT_THAT(table, HasSubstr("  " + made.cells[1].cell.id() + "  gptq    3     run\n"));
  EXPECT_THAT(table, HasSubstr("  obq     3     skip: not supported yet: method.name obq\n"));
}

}  // namespace
}  // namespace gptqb::test
