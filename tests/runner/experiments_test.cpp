// The experiment files that come with the program: they plan, and published values stand on stated
// settings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <tuple>

#include "common/atomic_file.h"
#include "models/published_shapes.h"
#include "runner/kernel_settings.h"
#include "runner/plan.h"
#include "tests/support/shared.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files() {
  std::vector<fs::path> result;
  for (const auto& entry :
       fs::recursive_directory_iterator(fs::path(GPTQB_SOURCE_DIR) / "experiments"))
    if (entry.path().extension() == ".yaml") result.push_back(entry.path());
  std::sort(result.begin(), result.end());
  return result;
}

Plan plan_of(const Experiment& experiment) {
  return make_plan(experiment, {.methods = {"none", "rtn", "gptq"},
                                .evaluators = {"perplexity", "decode_latency"}});
}

Plan plan_of(const std::string& name) {
  const auto experiments = load_experiments(fs::path(GPTQB_SOURCE_DIR) / "experiments" / name);
  EXPECT_EQ(experiments.size(), 1u);
  return plan_of(experiments.at(0));
}

TEST(Experiments, EveryFilePlansAndCarriesItsName) {
  EXPECT_GE(files().size(), 5u);
  for (const fs::path& file : files())
    for (const Experiment& experiment : load_experiments(file)) {
      const bool paper = file.parent_path().filename() == "paper";
      EXPECT_EQ(experiment.name, (paper ? "paper_" : "") + file.stem().string());
      EXPECT_GT(plan_of(experiment).cells.size(), 0u) << file;
    }
}

TEST(Experiments, NoFileHasACellThatCannotRun) {
  for (const char* name : {"quickstart.yaml", "smollm2_135m.yaml", "smollm2_cpu.yaml",
                           "opt_125m.yaml", "llama7b_w4g128.yaml"})
    for (const PlannedCell& planned : plan_of(name).cells)
      EXPECT_EQ(planned.skip_reason, "") << name;
}

// Where a published value stands, no default may supply a setting that decides it.
TEST(Experiments, PublishedValuesStandOnStatedSettings) {
  for (const fs::path& file : files())
    for (const Experiment& experiment : load_experiments(file)) {
      if (experiment.expect.empty()) continue;
      ASSERT_TRUE(experiment.base.count("compat.base")) << file;
      EXPECT_EQ(experiment.base.at("compat.base").value, "reference") << file;
      std::vector<std::string> wanted = {
          "quant.bits",        "quant.group_size", "quant.symmetric", "quant.grid_search",
          "quant.scale_dtype", "quant.head",       "quant.embedding", "model.dtype"};
      bool calibrated = false;
      for (const PlannedCell& planned : plan_of(experiment).cells)
        calibrated = calibrated || planned.cell.needs_calibration();
      if (calibrated)
        for (const char* key :
             {"method.damping", "method.block_size", "method.act_order", "method.static_groups",
              "method.true_sequential", "calibration.dataset", "calibration.samples",
              "calibration.seqlen", "calibration.seed", "calibration.draw"})
          wanted.push_back(key);
      for (const std::string& key : wanted) {
        bool stated = experiment.base.count(key) > 0;
        for (const auto& [swept, values] : experiment.sweep) stated = stated || swept == key;
        // Cells that use the key must each state it.
        bool all_cells = !experiment.cells.empty();
        for (const Settings& cell : experiment.cells) {
          const std::string method =
              cell.count("method.name") ? cell.at("method.name").value.get<std::string>() : "";
          const bool dropped =
              method == "none" || (method == "rtn" && key.compare(0, 7, "method.") == 0);
          all_cells = all_cells && (dropped || cell.count(key) > 0);
        }
        EXPECT_TRUE(stated || all_cells) << file << ": " << key << " is left to its default";
      }
      for (const auto& [where, expectation] : experiment.expect)
        EXPECT_NE(expectation.source, "") << expectation.position.text();
    }
}

TEST(Experiments, QuickstartNeedsNothingFromOutside) {
  const Plan plan = plan_of("quickstart.yaml");
  EXPECT_EQ(plan.cells.size(), 9u);
  for (const PlannedCell& planned : plan.cells) {
    EXPECT_EQ(planned.cell.model().dtype, "float32");
    for (const EvaluatorSpec& evaluator : planned.cell.evaluators())
      for (const DatasetSpec& dataset : evaluator.datasets) EXPECT_EQ(dataset.label(), "builtin");
  }
}

TEST(Experiments, LlamaExpectsBothPublishedNumbers) {
  const Plan plan = plan_of("llama7b_w4g128.yaml");
  int found = 0;
  for (const PlannedCell& planned : plan.cells)
    for (const Expectation& expectation : planned.expectations) {
      const MethodConfig& method = planned.cell.method();
      if (expectation.value == 5.85) {
        EXPECT_TRUE(method.act_order && method.true_sequential);
        ++found;
      } else if (expectation.value == 6.22) {
        EXPECT_FALSE(method.act_order || method.true_sequential);
        ++found;
      }
    }
  EXPECT_EQ(found, 2);
}

// Minutes of the paper's table, as seconds.
TEST(Experiments, PaperRuntimeHoldsEveryPublishedTime) {
  const std::map<std::string, double> minutes = {
      {"bloom-1b7", 2.9}, {"bloom-3b", 5.2}, {"bloom-7b1", 10.0},   {"bloom-176b", 3.8 * 60},
      {"opt-13b", 20.9},  {"opt-30b", 44.9}, {"opt-66b", 1.6 * 60}, {"opt-175b", 4.2 * 60}};
  const auto documents =
      load_experiments(fs::path(GPTQB_SOURCE_DIR) / "experiments/paper/runtime.yaml");
  ASSERT_EQ(documents.size(), 3u);
  for (const Experiment& experiment : documents) {
    const Plan plan = plan_of(experiment);
    EXPECT_FALSE(plan.resume);
    size_t published = 0;
    for (const PlannedCell& planned : plan.cells) {
      const Cell& cell = planned.cell;
      EXPECT_EQ(planned.skip_reason, "");
      EXPECT_EQ(cell.quant().bits, 3);
      EXPECT_EQ(cell.quant().group_size, -1);
      EXPECT_TRUE(cell.evaluators().empty());
      if (experiment.tier != "smoke") {
        EXPECT_EQ(cell.calibration().samples * cell.calibration().seqlen, 128 * 2048);
      }
      for (const Expectation& expectation : planned.expectations) {
        EXPECT_EQ(expectation.metric, "seconds.quantize_published_scope");
        EXPECT_NEAR(*expectation.value / 60, minutes.at(cell.model().synthetic.like), 1e-9);
        ++published;
      }
    }
    if (experiment.tier == "full") {
      EXPECT_EQ(published, minutes.size());
    }
  }
}

// scripts/plot_scaling.py extrapolates from two parts of a model.
TEST(Experiments, ScalingRunsEveryModelInFullOrTwice) {
  for (const Experiment& experiment :
       load_experiments(fs::path(GPTQB_SOURCE_DIR) / "experiments/scaling.yaml")) {
    std::map<std::string, std::set<int64_t>> runs;  // layers; 0: all
    for (const PlannedCell& planned : plan_of(experiment).cells) {
      const Cell& cell = planned.cell;
      EXPECT_EQ(planned.skip_reason, "");
      EXPECT_EQ(cell.quant().bits, 3);
      EXPECT_EQ(cell.quant().group_size, -1);
      EXPECT_EQ(cell.calibration().heldout, 0);
      runs[cell.model().synthetic.like].insert(cell.model().synthetic.layers);
    }
    for (const auto& [like, layers] : runs)
      EXPECT_TRUE(layers.contains(0) || layers.size() >= 2) << experiment.tier << ", " << like;
    if (experiment.tier == "full") {
      EXPECT_EQ(runs.size(), 9u) << "125M to 175B";
    }
  }
}

// The script stands alone, so it has numbers of blocks of its own.
TEST(Experiments, ThePlotOfScalingKnowsTheBlocksOfEveryPublishedModel) {
  const std::string script = read_file(fs::path(GPTQB_SOURCE_DIR) / "scripts/plot_scaling.py");
  const size_t begin = script.find("BLOCKS = {"), end = script.find('}', begin);
  ASSERT_NE(end, std::string::npos);
  const std::string table = script.substr(begin, end - begin);
  std::map<std::string, int64_t> known;
  const std::regex entry("\"([^\"]+)\": ([0-9]+)");
  for (std::sregex_iterator match(table.begin(), table.end(), entry), none; match != none; ++match)
    known[(*match)[1]] = std::stoll((*match)[2]);
  std::map<std::string, int64_t> published;
  for (const std::string& name : published_shapes()) {
    const auto config = published_config(name);
    published[name] = config.value("num_hidden_layers", config.value("n_layer", int64_t{0}));
  }
  EXPECT_EQ(known, published);
}

// The shapes of shared/reference/h200_peers.md, each solved by both.
TEST(Experiments, SolverLayersHoldTheShapesOfThePeers) {
  std::set<std::pair<std::string, SolverKind>> solved;
  for (const Experiment& experiment :
       load_experiments(fs::path(GPTQB_SOURCE_DIR) / "experiments/solver_layers.yaml")) {
    if (experiment.tier != "full") continue;
    for (const PlannedCell& planned : plan_of(experiment).cells)
      solved.emplace(planned.cell.model().synthetic.like, planned.cell.method().solver);
  }
  for (const char* like : {"llama-7b", "opt-175b"})
    for (const SolverKind solver : {SolverKind::kFast, SolverKind::kReference})
      EXPECT_TRUE(solved.contains({like, solver})) << like;
}

// The table of shared/reference/h200_peers.md, at the rows where kernels change, and every format.
TEST(Experiments, KernelsHoldTheShapesOfThePeersAndEveryFormat) {
  std::set<std::string> shapes;
  std::set<std::tuple<int64_t, int64_t, bool, bool>> formats;
  for (const char* name : {"kernels_llama7b", "kernels_opt175b", "kernels_all_bits"}) {
    const fs::path file =
        fs::path(GPTQB_SOURCE_DIR) / "experiments" / (std::string(name) + ".yaml");
    std::set<std::string> tiers;
    for (const Experiment& experiment : load_experiments(file)) {
      tiers.insert(experiment.tier);
      const Plan plan = plan_of(experiment);
      ASSERT_EQ(plan.cells.size(), 1u) << file;
      EXPECT_EQ(plan.cells[0].skip_reason, "") << file;
      const KernelBenchSpec spec = kernel_bench_of(plan.cells[0].cell);
      EXPECT_EQ(spec.cold, experiment.tier != "smoke") << file;
      if (experiment.tier != "full") continue;
      for (const KernelShape& shape : spec.shapes) shapes.insert(shape.text());
      for (const int64_t bits : spec.bits)
        for (const int64_t group : spec.group_sizes)
          for (const bool symmetric : spec.symmetric)
            for (const bool act_order : spec.act_order)
              formats.emplace(bits, group, symmetric, act_order);
      if (std::string(name) == "kernels_all_bits") continue;
      for (const int64_t m : {1, 16, 32, 64, 128, 256, 1024, 4096})
        EXPECT_TRUE(std::count(spec.m.begin(), spec.m.end(), m)) << file << ", M " << m;
    }
    EXPECT_EQ(tiers.size(), 3u) << file;
  }
  for (const char* shape : {"4096x4096", "4096x12288", "4096x22016", "11008x4096", "8192x57344",
                            "12288x49152", "49152x12288"})
    EXPECT_TRUE(shapes.contains(shape)) << shape;
  for (const int64_t bits : {2, 3, 4, 8})
    for (const int64_t group : {-1, 16, 32, 64, 128, 256})
      for (const bool symmetric : {true, false})
        for (const bool act_order : {true, false})
          EXPECT_TRUE(formats.contains({bits, group, symmetric, act_order}))
              << bits << " bits, groups of " << group;
}

TEST(Experiments, TokensAreTimedAtEveryWidthAndBatch) {
  std::set<std::string> tiers, bits;
  for (const Experiment& experiment :
       load_experiments(fs::path(GPTQB_SOURCE_DIR) / "experiments/decode_llama7b.yaml")) {
    tiers.insert(experiment.tier);
    for (const PlannedCell& planned : plan_of(experiment).cells) {
      EXPECT_EQ(planned.skip_reason, "") << experiment.tier;
      const DecodeTask& task = planned.cell.evaluators().at(0).decode;
      if (experiment.tier != "full") continue;
      EXPECT_EQ(task.batch, (std::vector<int64_t>{1, 4, 16, 64}));
      bits.insert(planned.cell.setting("model.synthetic.packed.bits"));
    }
  }
  EXPECT_EQ(tiers.size(), 3u);
  EXPECT_EQ(bits, (std::set<std::string>{"", "2", "3", "4", "8"})) << "and dense";
}

struct Named {
  const char* name;
  const char* method;
  int64_t bits;
  int64_t group_size;
  bool symmetric;
};

const Named kSmolCells[] = {
    {"fp16", "none", 0, 0, false},         {"rtn-w8-g-1", "rtn", 8, -1, false},
    {"rtn-w4-g-1", "rtn", 4, -1, false},   {"rtn-w3-g-1", "rtn", 3, -1, false},
    {"rtn-w3-g128", "rtn", 3, 128, false}, {"gptq-w4", "gptq", 4, -1, false},
    {"gptq-w3", "gptq", 3, -1, false},     {"gptq-w3-g128", "gptq", 3, 128, false},
    {"gptq-w3-g64", "gptq", 3, 64, false}, {"gptq-w4-sym-g128", "gptq", 4, 128, true}};

// The expectations of a cell by metric name.
std::map<std::string, Expectation> expectations_of(const Plan& plan, const Named& named) {
  for (const PlannedCell& planned : plan.cells) {
    const Cell& cell = planned.cell;
    if (cell.method().name != named.method) continue;
    if (named.bits != 0 &&
        (cell.quant().bits != named.bits || cell.quant().group_size != named.group_size ||
         cell.quant().symmetric != named.symmetric))
      continue;
    std::map<std::string, Expectation> result;
    for (const Expectation& expectation : planned.expectations)
      result[expectation.metric] = expectation;
    return result;
  }
  ADD_FAILURE() << "no cell " << named.name;
  return {};
}

TEST(Experiments, SmolLm2HoldsEveryReferenceValue) {
  const fs::path path = test::shared_root() / "reference" / "smollm2.json";
  GPTQB_REQUIRE_PATH(path);
  const nlohmann::json reference = nlohmann::json::parse(std::ifstream(path));
  const Plan plan = plan_of("smollm2_135m.yaml");
  EXPECT_EQ(plan.cells.size(), std::size(kSmolCells));
  const std::map<std::string, std::string> labels = {
      {"wikitext2", "wikitext2"}, {"ptb_test", "ptb-new"}, {"c4_demo", "c4_demo"}};
  for (const Named& named : kSmolCells) {
    const nlohmann::json& values = reference["perplexity"][named.name];
    auto expected = expectations_of(plan, named);
    const double tolerance = std::string(named.method) != "gptq" ? 0.005
                             : named.bits == 4                   ? 0.02
                                                                 : 0.08;
    for (const auto& [set, label] : labels) {
      const Expectation& expectation = expected["perplexity." + label];
      EXPECT_EQ(expectation.value, values[set].get<double>()) << named.name << " " << set;
      EXPECT_EQ(expectation.tolerance_relative, tolerance);
    }
    if (!values.contains("losses_first_two_blocks")) continue;
    int losses = 0;
    for (const auto& [layer, value] : values["losses_first_two_blocks"].items()) {
      if (layer.compare(0, 2, "0.") != 0) continue;
      const Expectation& expectation = expected["layer.model.layers." + layer + ".loss"];
      EXPECT_EQ(expectation.value, value.get<double>()) << named.name << " " << layer;
      EXPECT_EQ(expectation.tolerance_relative, 0.01);
      ++losses;
    }
    EXPECT_EQ(losses, 7);
  }
}

TEST(Experiments, SmolLm2RunsUnderTheSettingsOfTheReference) {
  for (const PlannedCell& planned : plan_of("smollm2_135m.yaml").cells) {
    const Cell& cell = planned.cell;
    EXPECT_EQ(cell.model().dtype, "float16");
    EXPECT_FALSE(cell.compat().reference_loss_dtype);
    EXPECT_FALSE(cell.compat().reference_rtn_groups);
    if (cell.dense()) continue;
    EXPECT_EQ(cell.quant().scale_dtype, ScaleDtype::kFloat32);
    EXPECT_TRUE(cell.compat().reference_one_sided);
    if (!cell.needs_calibration()) continue;
    EXPECT_TRUE(cell.compat().reference_group_grid);
    EXPECT_TRUE(cell.compat().reference_dead_columns);
    EXPECT_EQ(cell.calibration().datasets.at(0).dataset.label(), "wikitext2@train-head");
    EXPECT_EQ(cell.calibration().samples, 128);
    EXPECT_EQ(cell.calibration().seqlen, 2048);
    EXPECT_EQ(cell.calibration().seed, 0);
  }
}

TEST(Experiments, SmolLm2OnTheCpuHoldsTheFirstWindows) {
  const fs::path path = test::shared_root() / "reference" / "smollm2.json";
  GPTQB_REQUIRE_PATH(path);
  const nlohmann::json reference =
      nlohmann::json::parse(std::ifstream(path))["wikitext2_first_8_windows_float32_cpu"];
  const Plan plan = plan_of("smollm2_cpu.yaml");
  const Named cells[] = {{"dense", "none", 0, 0, false},
                         {"rtn-w4-g-1", "rtn", 4, -1, false},
                         {"rtn-w4-g128", "rtn", 4, 128, false},
                         {"rtn-w3-g64", "rtn", 3, 64, false}};
  EXPECT_EQ(plan.cells.size(), std::size(cells));
  for (const Named& named : cells) {
    const Expectation expectation = expectations_of(plan, named)["perplexity.wikitext2"];
    EXPECT_EQ(expectation.value, reference[named.name]["perplexity"].get<double>()) << named.name;
    EXPECT_EQ(expectation.tolerance_relative, 0.005);
  }
  for (const PlannedCell& planned : plan.cells) {
    EXPECT_EQ(planned.cell.evaluators().at(0).max_windows, 8);
    EXPECT_EQ(planned.cell.model().dtype, "float32");
    EXPECT_FALSE(planned.cell.needs_calibration());
  }
}

}  // namespace
}  // namespace gptqb
