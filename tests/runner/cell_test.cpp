// A cell as text: its identity, and the way there and back.
#include "runner/cell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "common/hash.h"
#include "tests/runner/planned.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;

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
                             "compat.forward=reference",
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

}  // namespace
}  // namespace gptqb::test
