// A model larger than what it may take, in a process whose memory can be looked at.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/atomic_file.h"
#include "methods/memory_plan.h"
#include "models/causal_lm.h"
#include "runner/cell_memory.h"
#include "runner/cli.h"
#include "runner/model_checks.h"
#include "runner/record.h"
#include "tests/runner/run_program.h"
#include "tests/runner/spawned_program.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using test::run_program;
using test::run_spawned;
using testing::AllOf;
using testing::HasSubstr;

class MemoryLimitsTest : public testing::Test {
 protected:
  // 16 blocks of 12.8 million float32 weights, made from the seed: 820 MB.
  std::string experiment(const std::string& more) const {
    const fs::path path = folder_ / "experiment.yaml";
    write_file_atomically(
        path,
        "name: large\n"
        "model: {synthetic: {architecture: llama, hidden_size: 1024, intermediate_size: 2816, "
        "heads: 16, layers: 16, vocab_size: 500}, dtype: float32}\n"
        "calibration: {dataset: random, samples: 2, seqlen: 32, heldout: 0}\n"
        "quant: {bits: 4, group_size: 128}\n"
        "method: {name: gptq, layers: \"*.o_proj\"}\n" +
            more);
    return path.string();
  }
  static std::string evaluation() {
    return "evaluate: [{perplexity: {datasets: [random], seqlen: 32, max_windows: 1}}]\n";
  }
  Record run(const std::string& path, const fs::path& output) const {
    const std::string log = (folder_ / "log").string();
    EXPECT_EQ(run_spawned({"run", path, "--output", output.string()}, log), kExitOk)
        << read_file(log);
    return load_records(output).records.at(0);
  }

  static constexpr double kModelBytes = 16 * 12.8e6 * 4;
  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

// Faults MM-03.
TEST_F(MemoryLimitsTest, AModelLargerThanBothLimitsRunsBelowThemToTheSameNumbers) {
  const double limit = 0.6 * (1 << 30);
  ASSERT_GT(kModelBytes, limit);
  const Record capped =
      run(experiment(evaluation() + "limits: {device_memory: 0.7, host_memory: 0.6}\n"),
          folder_ / "capped");
  EXPECT_LT(static_cast<double>(capped.peak_bytes.at("host_planned")), limit);
  EXPECT_LT(static_cast<double>(capped.peak_bytes.at("host_peak")), limit);
  EXPECT_LT(capped.peak_bytes.at("host_peak"), capped.peak_bytes.at("host_planned"));

  const Record free = run(experiment(evaluation()), folder_ / "free");
  EXPECT_EQ(find_metric(capped, "perplexity.random")->samples,
            find_metric(free, "perplexity.random")->samples);
  ASSERT_EQ(capped.layers.size(), free.layers.size());
  for (size_t i = 0; i < free.layers.size(); ++i)
    EXPECT_EQ(capped.layers[i].codes, free.layers[i].codes) << free.layers[i].layer;
  EXPECT_FALSE(fs::exists(folder_ / "capped/work"));
  // Weights were made beside the computing: more than the wait for them.
  EXPECT_GT(find_metric(capped, "busy_seconds.read")->value,
            find_metric(capped, "seconds.read")->value);
}

TEST_F(MemoryLimitsTest, WhatCannotFitIsSaidByPlanAndSkippedBeforeAnyWork) {
  const std::string path = experiment("limits: {host_memory: 0.05}\n");
  const auto expected = AllOf(HasSubstr("does not fit: [limits.host_memory] expected at least 0."),
                              HasSubstr("next block "), HasSubstr("got 0.05 GiB"));
  EXPECT_THAT(run_program({"plan", path}).out, expected);
  const auto outcome = run_program({"run", path, "--output", (folder_ / "out").string()});
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.out, expected);
  EXPECT_FALSE(fs::exists(folder_ / "out/work"));
  const Record record = load_records(folder_ / "out").records.at(0);
  EXPECT_EQ(record.status, CellStatus::kSkipped);
  EXPECT_THAT(record.reason, expected);
}

// An evaluation of all windows there are is counted when they have been read: the cell is skipped
// then, as one that was known before, and the rest goes on.
TEST_F(MemoryLimitsTest, WindowsThatNobodyCountedBeforeMakeASkippedCell) {
  const std::string text =
      "name: all_windows\n"
      "model: {synthetic: {architecture: llama, hidden_size: 1024, intermediate_size: 2816, heads: "
      "16, layers: 1, vocab_size: 20000}, dtype: float32}\n"
      "method: {name: none}\n"
      "evaluate: [{perplexity: {datasets: [random], seqlen: 4096}}]\n";
  const PlanOptions known{.methods = {"none"}, .evaluators = {"perplexity"}};
  const Plan plan = make_plan(parse_experiments(text, "p.yaml").at(0), known);
  const Cell& cell = plan.cells.at(0).cell;
  const int64_t uncounted =
      plan_memory(check_models(plan, "").sizes.at(cell.id()), memory_task(cell, "cpu", true), {})
          .host_bytes();
  // 8 windows of 4096 tokens are 128 MiB of hidden states.
  const double limit = static_cast<double>(uncounted + (int64_t{64} << 20)) / (1 << 30);
  const std::string path = (folder_ / "all_windows.yaml").string();
  write_file_atomically(path, text + "limits: {host_memory: " + std::to_string(limit) + "}\n");
  EXPECT_THAT(
      run_program({"plan", path}).out,
      AllOf(HasSubstr("1 to run"),
            HasSubstr("windows of evaluations without max_windows are counted when they are "
                      "read")));
  const auto outcome = run_program({"run", path, "--output", (folder_ / "out").string()});
  EXPECT_EQ(outcome.code, kExitFailed);
  const Record record = load_records(folder_ / "out").records.at(0);
  EXPECT_EQ(record.status, CellStatus::kSkipped);
  EXPECT_THAT(record.reason, AllOf(HasSubstr("does not fit: [limits.host_memory]"),
                                   HasSubstr("evaluation windows 0.12")));
}

struct Measured {
  const char* like;
  int64_t blocks;  // 0: all
  bool true_sequential;
  int64_t heldout;
  int64_t group_size;
  double device_peak;  // bytes.device_peak of results/published/2026-11-30/h200
};

// A plan that promises too little fails a run, one that promises far too much refuses it.
TEST(MemoryPlanOfPublishedShapes, LiesJustAboveWhatWasMeasuredOnAGpu) {
  const Measured measured[] = {
      {"llama-7b", 0, false, 0, 128, 5'974'345'216},  {"llama-7b", 0, true, 0, 128, 11'745'707'520},
      {"llama-7b", 0, false, 8, 128, 6'727'910'912},  {"opt-2.7b", 0, false, 0, -1, 4'424'018'944},
      {"opt-13b", 0, false, 0, -1, 14'369'794'048},   {"opt-66b", 4, false, 0, -1, 41'843'410'944},
      {"opt-175b", 12, false, 0, -1, 71'785'144'320}, {"bloom-1b7", 0, false, 0, -1, 3'914'469'376},
      {"bloom-7b1", 0, false, 0, -1, 11'351'105'536},
  };
  for (const Measured& row : measured) {
    SyntheticModel shape;
    shape.like = row.like;
    shape.layers = row.blocks;
    const auto model =
        open_synthetic(shape, {.dtype = "float16", .device = at::kCPU, .reference_forward = true});
    MemoryTask task;
    task.on_gpu = true;
    task.quantizes = true;
    task.calibration_tokens = 128 * 2048;
    task.heldout_tokens = row.heldout * 2048;
    task.tokens_per_pass = 16 * 2048;
    task.seqlen = 2048;
    task.true_sequential = row.true_sequential;
    task.group_size = row.group_size;
    const MemoryPlan plan = plan_memory(model->sizes(), task, {});
    const double ratio = static_cast<double>(plan.device_bytes()) / row.device_peak;
    EXPECT_GE(ratio, 1) << row.like << ": " << plan.text();
    EXPECT_LE(ratio, 1.25) << row.like << ": " << plan.text();
    if (std::string(row.like) == "llama-7b") {
      EXPECT_LE(plan.device_bytes() - plan.activation_bytes, 8'000'000'000) << plan.text();
    }
  }
}

TEST_F(MemoryLimitsTest, PlanSaysWhatAModelTakesOnEitherKindOfDevice) {
  EXPECT_THAT(run_program({"plan", experiment(evaluation())}).out,
              AllOf(HasSubstr("memory of llama 1024 x 16, gptq 4 bits, groups of 128"),
                    HasSubstr(" on a GPU: device "), HasSubstr(" on the CPU: host ")));
}

}  // namespace
}  // namespace gptqb
