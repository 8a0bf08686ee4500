// From experiments to cells: combinations, merging, identity, what is skipped, and expectations.
#include "runner/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "common/hash.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kHead = "name: p\nmodel: {path: /m}\n";

PlanOptions build() { return {.methods = {"none", "rtn", "gptq"}, .evaluators = {"perplexity"}}; }

Plan plan(const std::string& text, const std::vector<std::string>& set = {},
          const PlanOptions& options = build()) {
  const auto experiments = parse_experiments(kHead + text, "p.yaml", {.set = set, .tier = ""});
  EXPECT_EQ(experiments.size(), 1u);
  return make_plan(experiments.at(0), options);
}

std::string fault_of(const std::string& text) {
  return message_of([&] { plan(text); });
}

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

TEST(Plan, TypedSettingsAreThoseOfTheFile) {
  const Plan made = plan(
      R"(calibration: {dataset: wikitext2@train-head, samples: 5, seqlen: 64, seed: 7, heldout: 2, draw: disjoint}
method: {name: gptq, damping: 0.5, block_size: 32, act_order: true, static_groups: true, true_sequential: true, solver: reference, compute: float64, on_failure: rtn, inputs: dense}
quant: {bits: 3, group_size: 32, symmetric: true, grid_search: mse, scale_dtype: float32, grid_norm: 2, grid_steps: 50, grid_shrink: 0.5}
compat: {group_grid: reference, one_sided: reference, rtn_groups: reference, dead_columns: reference, rtn_dtype: model, loss_dtype: model}
evaluate:
  - perplexity: {datasets: [wikitext2, {name: own, source: "jsonl:/x.jsonl", join: " ", field: body}], seqlen: 128, max_windows: 3, batch: 2, bos: every_window}
)");
  ASSERT_EQ(made.cells.size(), 1u);
  EXPECT_EQ(made.cells[0].skip_reason, "");
  const Cell& cell = made.cells[0].cell;
  EXPECT_EQ(cell.calibration().datasets.at(0).dataset.label(), "wikitext2@train-head");
  EXPECT_EQ(cell.calibration().samples, 5);
  EXPECT_EQ(cell.calibration().seqlen, 64);
  EXPECT_EQ(cell.calibration().seed, 7);
  EXPECT_EQ(cell.calibration().heldout, 2);
  EXPECT_EQ(cell.calibration().draw, Draw::kDisjoint);
  MethodConfig method;
  method.damping = 0.5;
  method.block_size = 32;
  method.act_order = method.static_groups = method.true_sequential = true;
  method.solver = SolverKind::kReference;
  method.compute = ComputeDtype::kFloat64;
  method.on_failure = OnFailure::kRtn;
  method.inputs = StatsInputs::kDense;
  EXPECT_EQ(cell.method(), method);
  QuantConfig quant;
  quant.bits = 3;
  quant.group_size = 32;
  quant.symmetric = true;
  quant.grid_search = GridSearch::kMse;
  quant.scale_dtype = ScaleDtype::kFloat32;
  quant.grid_norm = 2;
  quant.grid_steps = 50;
  quant.grid_shrink = 0.5;
  EXPECT_EQ(cell.quant(), quant);
  EXPECT_EQ(cell.compat(), (CompatPolicy{true, true, true, true, true, true}));
  ASSERT_EQ(cell.evaluators().size(), 1u);
  const EvaluatorSpec& perplexity = cell.evaluators()[0];
  EXPECT_EQ(perplexity.name, "perplexity");
  EXPECT_EQ(perplexity.seqlen, 128);
  EXPECT_EQ(perplexity.max_windows, 3);
  EXPECT_EQ(perplexity.batch, 2);
  EXPECT_EQ(perplexity.bos, BosPolicy::kEveryWindow);
  ASSERT_EQ(perplexity.datasets.size(), 2u);
  EXPECT_EQ(perplexity.datasets[1].name, "own");
  EXPECT_EQ(perplexity.datasets[1].source, "jsonl:/x.jsonl");
  EXPECT_EQ(perplexity.datasets[1].join, " ");
  EXPECT_EQ(perplexity.datasets[1].field, "body");
}

TEST(Plan, CompatReferenceSetsAllAndNearerKeysWin) {
  EXPECT_EQ(plan("method: {name: gptq}\ncompat: reference\n").cells[0].cell.compat(),
            (CompatPolicy{true, true, true, true, true, true}));
  EXPECT_EQ(plan("method: {name: gptq}\ncompat: {base: reference, rtn_groups: honour, loss_dtype: "
                 "float32}\n")
                .cells[0]
                .cell.compat(),
            (CompatPolicy{true, true, false, true, true, false}));
  EXPECT_EQ(plan("method: {name: gptq}\nsweep: {compat: [default, reference]}\n").cells.size(), 2u);
  // Spelled out or in short, it is the same cell.
  EXPECT_EQ(plan("method: {name: rtn}\ncompat: reference\n").cells[0].cell.id(),
            plan("method: {name: rtn}\ncompat: {one_sided: reference, rtn_groups: reference, "
                 "rtn_dtype: model, loss_dtype: model}\n")
                .cells[0]
                .cell.id());
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

// ---- identity ----

TEST(Cell, IdIsTheHashOfTheCanonicalText) {
  const Cell cell = plan("method: {name: rtn}\n").cells[0].cell;
  EXPECT_EQ(cell.id(), sha256_hex(cell.canonical()).substr(0, 16));
  EXPECT_EQ(
      cell.canonical(),
      R"({"compat.loss_dtype":"float32","compat.one_sided":"full_range","compat.rtn_dtype":"float32","compat.rtn_groups":"honour","method.name":"rtn",)"
      R"("model.backend":"auto","model.dtype":"auto","model.path":"/m","quant.bits":4,"quant.grid_search":"none",)"
      R"("quant.group_size":128,"quant.scale_dtype":"float16","quant.symmetric":false})");
}

TEST(Cell, IdIsTheSameOnEveryMachineAndForEverySpelling) {
  const std::string text =
      "name: p\nmodel: {path: \"${GPTQB_TEST_MODELS}/m\"}\nmethod: {name: gptq, damping: %}\n";
  const auto id = [&](const char* folder, const std::string& damping) {
    setenv("GPTQB_TEST_MODELS", folder, 1);
    std::string filled = text;
    filled.replace(filled.find('%'), 1, damping);
    const Plan made = make_plan(parse_experiments(filled, "x.yaml").at(0), build());
    EXPECT_EQ(made.cells[0].cell.model().path, std::string(folder) + "/m");
    EXPECT_EQ(made.cells[0].cell.model().path_unexpanded, "${GPTQB_TEST_MODELS}/m");
    return made.cells[0].cell.id();
  };
  EXPECT_EQ(id("/a", "0.01"), id("/b", "1e-2"));
  EXPECT_NE(id("/a", "0.01"), id("/a", "0.02"));
}

TEST(Cell, EverySettingChangesTheId) {
  const auto id = [](const std::string& option) {
    return plan("method: {name: gptq}\nevaluate: [{perplexity: {datasets: [c4]}}]\n", {option})
        .cells[0]
        .cell.id();
  };
  std::set<std::string> ids = {id("method.damping=0.01")};
  for (const char* option : {"model.path=/n",
                             "model.dtype=float32",
                             "calibration.dataset=ptb",
                             "calibration.samples=1",
                             "calibration.seqlen=8",
                             "calibration.seed=1",
                             "calibration.heldout=0",
                             "calibration.draw=disjoint",
                             "method.damping=0.02",
                             "method.block_size=64",
                             "method.act_order=true",
                             "method.static_groups=true",
                             "method.true_sequential=true",
                             "method.solver=reference",
                             "method.compute=float64",
                             "method.on_failure=error",
                             "method.inputs=dense",
                             "quant.bits=3",
                             "quant.group_size=-1",
                             "quant.symmetric=true",
                             "quant.grid_search=mse",
                             "quant.scale_dtype=float32",
                             "compat.group_grid=reference",
                             "compat.one_sided=reference",
                             "compat.rtn_groups=reference",
                             "compat.rtn_dtype=model",
                             "compat.dead_columns=reference",
                             "compat.loss_dtype=model",
                             "evaluate.perplexity.datasets=[c4-new]",
                             "evaluate.perplexity.seqlen=64",
                             "evaluate.perplexity.max_windows=1",
                             "evaluate.perplexity.batch=1",
                             "evaluate.perplexity.bos=none",
                             "method.name=obq",
                             "overrides=[{match: a, skip: true}]",
                             "quant.head=4"})
    EXPECT_TRUE(ids.insert(id(option)).second) << option;
  // The name of the experiment, and what changes only how a cell runs, do not.
  for (const char* option : {"name=other", "resume=false"})
    EXPECT_FALSE(ids.insert(id(option)).second) << option;
}

TEST(Cell, ComesBackFromItsCanonicalText) {
  setenv("GPTQB_TEST_MODELS", "/models", 1);
  const auto experiments = parse_experiments(
      "name: p\nmodel: {path: \"${GPTQB_TEST_MODELS}/m\"}\nmethod: {name: gptq, act_order: true, "
      "damping: 0.015}\n"
      "overrides:\n  - {match: \"*.down_proj\", quant.bits: 8}\n"
      "evaluate:\n  - perplexity: {datasets: [c4, {name: o, source: \"text:/t \\\"q\\\" "
      "\\u00e9.txt\", join: \"\\n\\t\"}]}\n",
      "p.yaml");
  const Cell cell = make_plan(experiments.at(0), build()).cells[0].cell;
  const Cell back = Cell::from_json(cell.canonical());
  EXPECT_EQ(back.canonical(), cell.canonical());
  EXPECT_EQ(back.id(), cell.id());
  EXPECT_EQ(back.settings(), cell.settings());
  EXPECT_EQ(back.method(), cell.method());
  EXPECT_EQ(back.model().path, "/models/m");
  EXPECT_EQ(back.evaluators()[0].datasets, cell.evaluators()[0].datasets);
  EXPECT_EQ(back.evaluators()[0].datasets[1].join, "\n\t");
  EXPECT_EQ(back.settings_for("a.down_proj").quant.bits, 8);
}

TEST(Cell, DivergenceHasWindowsOfItsOwn) {
  const PlanOptions options{.methods = {"none", "rtn"}, .evaluators = {"perplexity", "divergence"}};
  const std::string text =
      "method: {name: rtn}\n"
      "evaluate:\n  - divergence: {datasets: [c4, ptb], seqlen: 256, max_windows: 5}\n"
      "  - perplexity: {datasets: [wikitext2]}\n";
  const Cell cell = plan(text, {}, options).cells[0].cell;
  EXPECT_EQ(plan(text, {}, options).cells[0].skip_reason, "");
  ASSERT_EQ(cell.evaluators().size(), 2u);
  EXPECT_EQ(cell.evaluators()[0].name, "perplexity");
  EXPECT_EQ(cell.evaluators()[0].seqlen, 2048);
  EXPECT_EQ(cell.evaluators()[1].name, "divergence");
  EXPECT_EQ(cell.evaluators()[1].datasets.size(), 2u);
  EXPECT_EQ(cell.evaluators()[1].datasets[1].name, "ptb");
  EXPECT_EQ(cell.evaluators()[1].seqlen, 256);
  EXPECT_EQ(cell.evaluators()[1].max_windows, 5);
  const auto gate = [&](const std::string& metric) {
    return message_of([&] {
      plan(text + "expect: [{metric: " + metric + ", at_most: 1, source: x}]\n", {}, options);
    });
  };
  EXPECT_EQ(gate("divergence.ptb.top1_agreement"), "nothing was thrown");
  EXPECT_THAT(gate("divergence.c4.meankl"), HasSubstr("Did you mean 'divergence.c4.mean_kl'?"));
}

TEST(Cell, FromJsonRefusesWhatItDoesNotKnow) {
  EXPECT_EQ(
      message_of([] { Cell::from_json(R"({"method.name":"rtn","quant.bitz":4})"); }).substr(0, 25),
      "[cell:1:22 quant.bitz] ex");
  EXPECT_THAT(message_of([] { Cell::from_json(R"({"method.name":"rtn","quant.bits":5})"); }),
              HasSubstr("expected one of 2, 3, 4, 8, ternary; got '5'"));
  EXPECT_THAT(message_of([] { Cell::from_json("[1]"); }),
              HasSubstr("expected a JSON object of dotted keys, got '[1]'"));
}

TEST(Cell, SettingsFollowTheSchema) {
  const Cell cell = plan("method: {name: gptq}\nquant: {bits: 3}\n").cells[0].cell;
  std::vector<std::string> keys;
  for (const auto& [key, value] : cell.settings()) keys.push_back(key);
  EXPECT_EQ(keys.front(), "model.path");
  const auto at = [&](const char* key) {
    return std::find(keys.begin(), keys.end(), key) - keys.begin();
  };
  EXPECT_LT(at("calibration.dataset"), at("method.name"));
  EXPECT_LT(at("method.name"), at("quant.bits"));
  EXPECT_LT(at("quant.bits"), at("compat.group_grid"));
}

// ---- overrides ----

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

TEST(Plan, OrderOfColumnsReachesTheMethod) {
  const auto cell = [](const std::string& method) {
    return plan("method: {name: " + method + "}\n").cells.at(0).cell;
  };
  EXPECT_EQ(cell("gptq, order: reverse").method().order, ColumnOrder::kReverse);
  const Cell random = cell("gptq, order: random:17");
  EXPECT_EQ(random.method().order, ColumnOrder::kRandom);
  EXPECT_EQ(random.method().order_seed, 17);
  EXPECT_NE(random.id(), cell("gptq, order: random:18").id());
  EXPECT_THAT(random.summary(), HasSubstr("order random:17"));
  // A default that is written down is still the same cell; obq's is another one.
  EXPECT_EQ(cell("gptq, order: natural").id(), cell("gptq").id());
  EXPECT_EQ(cell("rtn, order: reverse").id(), cell("rtn").id());
  EXPECT_EQ(cell("obq, order: greedy").id(), cell("obq").id());
  EXPECT_NE(cell("obq, order: natural").id(), cell("obq").id());
  EXPECT_EQ(cell("obq, order: natural").method().order, ColumnOrder::kNatural);
  // Only cells that are left in must make sense.
  const Plan made = plan(
      "sweep: {method.name: [gptq, obq], method.order: [reverse, greedy]}\n"
      "exclude: [{method.name: gptq, method.order: greedy}]\n");
  EXPECT_EQ(made.cells.size(), 3u);
}

TEST(Cell, HeadAndEmbeddingShareAllButTheirBits) {
  const std::string start = "method: {name: gptq}\nquant: {bits: 3, group_size: 64";
  const Cell cell = plan(start + ", head: 4, embedding: 8}\n").cells[0].cell;
  ASSERT_TRUE(cell.head() && cell.embedding());
  EXPECT_EQ(cell.head()->bits, 4);
  EXPECT_EQ(cell.head()->group_size, 64);
  EXPECT_EQ(cell.embedding()->bits, 8);
  EXPECT_EQ(cell.quant().bits, 3);
  EXPECT_EQ(cell.summary(), "gptq 3 bits, groups of 64, head 4 bits, embedding 8 bits");
  EXPECT_EQ(Cell::from_json(cell.canonical()).id(), cell.id());
  // A cell that says none is the cell that says nothing.
  const Cell none = plan(start + ", head: none, embedding: none}\n").cells[0].cell;
  EXPECT_FALSE(none.head() || none.embedding());
  EXPECT_EQ(none.id(), plan(start + "}\n").cells[0].cell.id());
  EXPECT_NE(none.id(), cell.id());
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

// ---- what is skipped ----

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
  EXPECT_EQ(reason("method: {name: gptq}\nexecutor: {name: slurm, partition: gpu}\n"),
            "not supported yet: executor.name slurm, executor.partition gpu");
  EXPECT_EQ(
      reason(
          "method: {name: gptq}\nexecutor: {name: local}\ndump: []\nlimits: {host_memory: all}\n"),
      "");
}

TEST(Plan, LimitsAreGibibytes) {
  const Plan limited = plan("method: {name: gptq}\nlimits: {device_memory: 8, host_memory: 0.5}\n");
  EXPECT_EQ(limited.limits.device, int64_t{8} << 30);
  EXPECT_EQ(limited.limits.host, int64_t{1} << 29);
  EXPECT_EQ(limited.cells[0].cell.id(), plan("method: {name: gptq}\n").cells[0].cell.id())
      << "they change how a cell runs, not what it is";
  EXPECT_FALSE(plan("method: {name: gptq}\nlimits: {host_memory: all}\n").limits.host);
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

// Sampling: RTN is asked for the same rows and layers; at their defaults the keys are in no
// identity.
TEST(Plan, SampledRowsAndLayersReachTheMethod) {
  const Plan made = plan(
      "method: {rows: 8, layers: \"*.q_proj\"}\nsweep: {method.name: [none, rtn, gptq, obq]}\n");
  EXPECT_EQ(made.cells[0].cell.setting("method.rows"), "");
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(made.cells[i].cell.method().rows, 8);
    EXPECT_EQ(made.cells[i].cell.method().layers, "*.q_proj");
    EXPECT_THAT(made.cells[i].cell.summary(), HasSubstr(", 8 rows a linear, layers *.q_proj"));
  }
  const Plan all = plan("method: {name: obq, rows: all, layers: \"*\"}\n");
  EXPECT_EQ(all.cells[0].cell.id(), plan("method: {name: obq}\n").cells[0].cell.id());
  EXPECT_EQ(all.cells[0].cell.setting("method.rows"), "");
  // What changes no code of OBQ makes no other cell.
  EXPECT_EQ(plan("method: {name: obq, block_size: 64, static_groups: true}\n").cells[0].cell.id(),
            all.cells[0].cell.id());
  EXPECT_TRUE(
      plan("method: {name: obq, outlier_first: true}\n").cells[0].cell.method().outlier_first);
}

TEST(Plan, SyntheticModelsArePlannedAndMustBeNamed) {
  const auto model_of = [](const std::string& model) {
    return parse_experiments("name: s\nmodel: {synthetic: " + model + "}\nmethod: {name: rtn}\n",
                             "s");
  };
  const auto made = make_plan(model_of("{like: llama-7b, layers: 2, seed: 3}").at(0), build());
  EXPECT_EQ(made.cells[0].skip_reason, "");
  const SyntheticModel& model = made.cells[0].cell.model().synthetic;
  EXPECT_EQ(model.like, "llama-7b");
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.seed, 3);
  EXPECT_THAT(test::message_of([&] { model_of("{seed: 3}"); }),
              HasSubstr("expected a `model.path` for every cell"));
}

TEST(Plan, KernelsAreACellOfTheirOwnAndSaveIsNone) {
  const Plan made =
      plan("method: {name: rtn}\nkernels: {like: llama-7b, m: [1, 16]}\nsave: {path: /out}\n");
  ASSERT_EQ(made.cells.size(), 2u);
  EXPECT_EQ(made.cells[0].skip_reason, "");
  EXPECT_EQ(made.cells[1].skip_reason, "");
  EXPECT_EQ(made.save->path, "/out");
  EXPECT_TRUE(made.cells[1].cell.measures_kernels());
  EXPECT_FALSE(made.cells[0].cell.measures_kernels());
  EXPECT_EQ(made.cells[1].cell.setting("kernels.m"), "1, 16");
  const auto alone = parse_experiments("name: k\nkernels: {like: llama-7b}\n", "k");
  EXPECT_EQ(make_plan(alone.at(0), build()).cells.size(), 1u);
  const auto with_slurm =
      parse_experiments("name: k\nkernels: {like: llama-7b}\nexecutor: {name: slurm}\n", "k");
  EXPECT_EQ(make_plan(with_slurm.at(0), build()).cells[0].skip_reason,
            "not supported yet: executor.name slurm");
}

// Two spellings of one thing are one cell, and defaults are part of it.
TEST(Plan, KernelsHaveEveryDefaultInTheirCell) {
  const auto cell_of = [](const std::string& keys) {
    return make_plan(parse_experiments("name: k\nkernels: {" + keys + "}\n", "k").at(0), build())
        .cells.at(0)
        .cell;
  };
  const Cell plain = cell_of("like: llama-7b");
  EXPECT_EQ(plain.setting("kernels.m"), "1, 16");
  EXPECT_EQ(plain.setting("kernels.bits"), "4");
  EXPECT_EQ(plain.setting("kernels.group_size"), "128");
  EXPECT_EQ(plain.setting("kernels.symmetric"), "true");
  EXPECT_EQ(plain.setting("kernels.act_order"), "false");
  EXPECT_EQ(plain.setting("kernels.dtype"), "float16");
  EXPECT_EQ(plain.setting("kernels.cold"), "true");
  EXPECT_EQ(plain.id(), cell_of("like: llama-7b, bits: 4, group_size: [128], cold: true").id());
  EXPECT_NE(plain.id(), cell_of("like: llama-7b, bits: 3").id());
  EXPECT_EQ(Cell::from_json(plain.canonical()).id(), plain.id());
  EXPECT_EQ(plain.summary(), "kernels llama-7b");
}

TEST(Plan, KernelsThatCannotBeMeantAreErrorsInOneMessage) {
  const auto fault = [](const std::string& keys) {
    return test::message_of([&] {
      make_plan(parse_experiments("name: k\nkernels: {" + keys + "}\n", "k").at(0), build());
    });
  };
  EXPECT_THAT(fault("m: 1"),
              HasSubstr("expected one of kernels.like and kernels.shapes, got none"));
  EXPECT_THAT(fault("like: llama-7b, shapes: [64x64]"), HasSubstr("got both"));
  EXPECT_THAT(fault("shapes: [64x64, 64, 0x5]"),
              testing::AllOf(HasSubstr("expected KxN such as 4096x11008, got '64'"),
                             HasSubstr("got '0x5'")));
  EXPECT_THAT(fault("like: llama-7"), HasSubstr("Did you mean 'llama-7b'?"));
  EXPECT_THAT(fault("like: llama-7b, kernel: [cpu_plian]"), HasSubstr("Did you mean 'cpu_plain'?"));
  EXPECT_THAT(fault("like: llama-7b, bits: [5]"), HasSubstr("expected one of 2, 3, 4, 8"));
  EXPECT_THAT(fault("like: llama-7b, group_size: 0"), HasSubstr("kernels.group_size"));
  EXPECT_THAT(fault("like: llama-7b, repetitions: 2"), HasSubstr("an integer >= 3"));
  EXPECT_THAT(fault("like: llama-7b, grup_size: 32"), HasSubstr("kernels.group_size"));
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

// ---- expectations ----

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

// ---- shards, table, inputs ----

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

TEST(MissingInputs, SaysWhatWhereAndHow) {
  const test::TemporaryFolder folder;
  const fs::path& base = folder.path();
  fs::create_directories(base / "m");
  const std::string text =
      "name: p\nmodel: {path: m}\nmethod: {name: gptq}\ncalibration: {dataset: wikitext2}\n"
      "evaluate: [{perplexity: {datasets: [c4, {name: o, source: \"text:o.txt\"}]}}]\n";
  const Plan made = make_plan(parse_experiments(text, "p.yaml").at(0), build());
  std::vector<std::string> missing = missing_inputs(made.cells[0].cell, base / "data", base);
  ASSERT_EQ(missing.size(), 4u);
  EXPECT_EQ(missing[0], "model: expected the Hugging Face folder of m at " + (base / "m").string() +
                            ", got a folder without config.json. Put config.json, the safetensors "
                            "and the tokenizer files of "
                            "that model there (by `huggingface-cli download`, or a copy)");
  EXPECT_THAT(missing[1], HasSubstr("expected the file wikitext-2-raw/wiki.train.raw"));
  EXPECT_THAT(missing[2], HasSubstr("expected the file c4/en/c4-validation.00000-of-00008.json"));
  EXPECT_THAT(missing[3], HasSubstr("expected the file of source 'text:o.txt'"));

  std::ofstream(base / "m" / "config.json") << "{}";
  std::ofstream(base / "o.txt") << "text";
  fs::create_directories(base / "data/c4/en");
  std::ofstream(base / "data/c4/en/c4-validation.00000-of-00008.json.gz") << "only looked for";
  missing = missing_inputs(made, base / "data", base);
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0], HasSubstr("wiki.train.raw"));
}

TEST(MissingInputs, NamesTheVariableOfThePath) {
  unsetenv("GPTQB_TEST_UNSET");
  const auto experiments = parse_experiments(
      "name: p\nmodel: {path: \"${GPTQB_TEST_UNSET:-/nowhere}/m\"}\nmethod: {name: none}\n",
      "p.yaml");
  const auto missing = missing_inputs(make_plan(experiments.at(0), build()), "", "");
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_THAT(missing[0], HasSubstr("at /nowhere/m, got none"));
  EXPECT_THAT(missing[0],
              HasSubstr("or set the variable: model.path is ${GPTQB_TEST_UNSET:-/nowhere}/m"));
}

}  // namespace
}  // namespace gptqb
