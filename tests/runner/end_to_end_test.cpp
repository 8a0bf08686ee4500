// The whole program on the embedded model: what a user types, and what is left on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/atomic_file.h"
#include "common/progress.h"
#include "runner/cli.h"
#include "runner/record.h"
#include "runner/resume_store.h"
#include "tests/runner/run_program.h"
#include "tests/support/shared.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::run_program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class EndToEnd : public testing::Test {
 protected:
  void SetUp() override { experiment_ = write("experiment.yaml", text()); }
  void TearDown() override { interrupt_requested() = false; }

  // Dense, RTN and GPTQ on a few short windows: seconds on a CPU.
  static std::string text() {
    return "name: tiny\n"
           "model: {path: \"" GPTQB_SOURCE_DIR
           "/assets/quickstart-model\", dtype: float32}\n"
           "calibration: {dataset: builtin, samples: 8, seqlen: 64, heldout: 2}\n"
           "quant: {bits: 3, group_size: 64}\n"
           "evaluate:\n"
           "  - perplexity: {datasets: [builtin], seqlen: 64, max_windows: 6}\n"
           "sweep:\n"
           "  method.name: [none, rtn, gptq]\n";
  }

  std::string write(const std::string& name, const std::string& content) const {
    write_file_atomically(folder_ / name, content);
    return (folder_ / name).string();
  }
  std::string output() const { return (folder_ / "out").string(); }
  Outcome run(std::vector<std::string> more = {}) const {
    std::vector<std::string> args = {"run", experiment_, "--output", output()};
    args.insert(args.end(), more.begin(), more.end());
    return run_program(args);
  }
  std::vector<Record> records() const { return load_records(output()).records; }
  double perplexity(size_t cell) const {
    return find_metric(records().at(cell), "perplexity.builtin")->value;
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
  std::string experiment_;
};

TEST_F(EndToEnd, OneCommandLeavesTheTableAndItsRecords) {
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("none"), HasSubstr("rtn"), HasSubstr("gptq"), HasSubstr("table.md")));
  for (const char* file : {"table.md", "results.csv", "results.json", "layers.csv"})
    EXPECT_TRUE(fs::exists(fs::path(output()) / file)) << file;
  ASSERT_EQ(records().size(), 3u);
  for (const Record& record : records()) EXPECT_EQ(record.status, CellStatus::kOk) << record.reason;
  EXPECT_LT(perplexity(0), perplexity(1));
  const Record gptq = records()[2];
  ASSERT_EQ(gptq.layers.size(), 6u * 7u);
  for (const LayerHealth& layer : gptq.layers) {
    EXPECT_EQ(layer.status, "ok");
    EXPECT_EQ(layer.tokens, 8 * 64);
    EXPECT_EQ(layer.sequences, 8);
    EXPECT_LT(*layer.relative_error, *layer.relative_error_rtn) << layer.layer;
    EXPECT_TRUE(layer.relative_error_heldout.has_value());
    EXPECT_TRUE(layer.drift.has_value());
  }
  // RTN takes no data, so its errors are unknown, which is not 0.
  for (const LayerHealth& layer : records()[1].layers) {
    EXPECT_EQ(layer.tokens, 0);
    EXPECT_FALSE(layer.loss || layer.relative_error || layer.relative_error_heldout || layer.drift);
  }
  EXPECT_THAT(read_file(fs::path(output()) / "layers.csv"),
              HasSubstr(records()[1].cell_id + ",model.layers.0.self_attn.q_proj,rtn,3,64,,,,,,"));
  // 3 bits, and a float16 scale and a 3-bit zero point for each 64 (the last group of 512 = 8 x 64
  // is whole).
  EXPECT_NEAR(find_metric(gptq, "bits_per_weight.linear")->value, 3 + 19.0 / 64, 1e-9);
  // Nothing unfinished is kept.
  EXPECT_TRUE(!fs::exists(fs::path(output()) / "work") ||
              fs::is_empty(fs::path(output()) / "work"));
}

// All of a cell's time is in exactly one phase, whatever the method, and the cells' time is that of
// the command.
TEST_F(EndToEnd, PhasesAddUpToTheWallTimeOfTheCell) {
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(run().code, kExitOk);
  const double wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  double cells = 0;
  for (const Record& record : records()) {
    const auto seconds = [&](const std::string& name) {
      const auto metric = find_metric(record, "seconds." + name);
      EXPECT_TRUE(metric.has_value()) << name;
      return metric ? metric->value : 0;
    };
    double sum = 0;
    for (const char* phase :
         {"read", "forward", "hessian", "factor", "solve", "write", "evaluation", "idle"}) {
      EXPECT_GE(seconds(phase), 0) << phase;
      sum += seconds(phase);
    }
    EXPECT_NEAR(sum / seconds("cell"), 1, 0.02) << record.setting("method.name");
    EXPECT_GT(seconds("evaluation"), 0);
    cells += seconds("cell");
    if (record.setting("method.name") != "gptq") continue;
    // Quantizing without reading and writing.
    const double work =
        seconds("forward") + seconds("hessian") + seconds("factor") + seconds("solve");
    EXPECT_LE(work, seconds("quantize_published_scope"));
    EXPECT_LT(seconds("quantize_published_scope"), seconds("quantize"));
    EXPECT_LT(seconds("quantize") + seconds("evaluation"), seconds("cell"));
  }
  EXPECT_LE(cells, wall);
  EXPECT_GT(cells / wall, 0.6);
}

// A model from a seed, on random ids: no files, time and memory in the record, marked everywhere.
TEST_F(EndToEnd, ASyntheticModelRunsWithoutAnyFile) {
  write(
      "experiment.yaml",
      "name: made\n"
      "model: {synthetic: {architecture: llama, hidden_size: 32, intermediate_size: 64, heads: 4, "
      "kv_heads: 2, layers: 3, vocab_size: 100}, dtype: float32}\n"
      "calibration: {dataset: random, samples: 4, seqlen: 16, heldout: 2}\n"
      "quant: {bits: 3, group_size: 16}\n"
      "method: {name: gptq}\n"
      "evaluate:\n"
      "  - perplexity: {datasets: [random], seqlen: 16, max_windows: 2}\n"
      "expect:\n"
      "  - {where: {}, metric: perplexity.random, at_most: 1000}\n");
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("synthetic weights"), HasSubstr("not comparable")));
  ASSERT_EQ(records().size(), 1u);
  const Record record = records()[0];
  EXPECT_EQ(record.status, CellStatus::kOk) << record.reason;
  EXPECT_EQ(record.layers.size(), 3u * 7u);
  EXPECT_GT(find_metric(record, "seconds.quantize")->value, 0);
  EXPECT_EQ(record.layers[0].tokens, 4 * 16);

  write("experiment.yaml", text() + "  calibration.dataset: [random]\n");
  EXPECT_THAT(run().err + run().out, HasSubstr("Random ids say nothing about a real model"));
}

// What a model may choose in its forward pass, the dense one included.
TEST_F(EndToEnd, TheRecordSaysHowBloomsAttentionRounds) {
  write(
      "experiment.yaml",
      "name: made\n"
      "model: {synthetic: {architecture: bloom, hidden_size: 32, heads: 2, layers: 1, vocab_size: "
      "100}, dtype: float16}\n"
      "method: {name: none}\n"
      "compat: reference\n"
      "evaluate:\n"
      "  - perplexity: {datasets: [random], seqlen: 16, max_windows: 2}\n");
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  ASSERT_EQ(records().size(), 1u);
  EXPECT_EQ(records()[0].policies.at("attention"), "scores in the model's dtype, as transformers");
  EXPECT_EQ(records()[0].setting("compat.forward"), "reference");
}

// Mixed precision: which rule took which layer, and bits a weight counted by hand. A block of the
// model has q 192 x 192, k and v 64 x 192, o 192 x 192, gate and up 512 x 192, down 192 x 512:
// 393216 weights in 1728 rows.
TEST_F(EndToEnd, MixedPrecisionIsReportedAndItsBitsAddUp) {
  write("experiment.yaml",
        text() +
            "overrides:\n"
            "  - {match: \"model.layers.5.*\", skip: true}\n"
            "  - {match: \"model.layers.0.*\", quant.bits: 4, "
            "quant.group_size: -1, quant.scale_dtype: float32}\n"
            "  - {match: \"*.down_proj\", quant.bits: 8, quant.group_size: 128}\n");
  ASSERT_EQ(run({"--set", "method.name=rtn"}).code, kExitOk);
  const Record record = records().at(0);
  ASSERT_EQ(record.layers.size(), 42u);
  const std::string first =
      "model.layers.0.*: quant.bits 4, quant.group_size -1, quant.scale_dtype float32";
  const std::string down = "*.down_proj: quant.bits 8, quant.group_size 128";
  for (size_t i = 0; i < 42; ++i) {
    const LayerHealth& layer = record.layers[i];
    const bool is_down = layer.layer.ends_with("down_proj");
    const std::string rule = i / 7 == 5   ? "model.layers.5.*: skip true"
                             : i / 7 == 0 ? first
                             : is_down    ? down
                                          : "";
    EXPECT_EQ(layer.rule, rule) << layer.layer;
    EXPECT_EQ(layer.bits, i / 7 == 5 ? 0 : i / 7 == 0 ? 4 : is_down ? 8 : 3) << layer.layer;
  }
  const double dense_block = 393216 * 32.0;                   // stays float32
  const double first_block = 393216 * 4.0 + 1728 * (32 + 4);  // a scale and a zero a row
  const double middle_block = (393216 - 98304) * 3.0 +
                              (1728 - 192) * 3 * (16 + 3)          // 3 groups a row
                              + 98304 * 8.0 + 192 * 4 * (16 + 8);  // 4 groups a row
  const double bits = dense_block + first_block + 4 * middle_block;
  EXPECT_NEAR(find_metric(record, "bits_per_weight.linear")->value, bits / (6 * 393216), 1e-9);
  // Beside the linears: a tied embedding 2048 x 192 and 13 norms of 192.
  const double others = 2048 * 192 + 13 * 192;
  EXPECT_NEAR(find_metric(record, "bits_per_weight.model")->value,
              (bits + others * 32) / (6 * 393216 + others), 1e-9);
  const std::string table = read_file(fs::path(output()) / "table.md");
  EXPECT_THAT(table,
              HasSubstr("- `" + down + "` -> 4 layers, e.g. model.layers.1.mlp.down_proj, "));
  EXPECT_THAT(table, HasSubstr("- `model.layers.5.*: skip true` -> 7 layers, e.g. "));
  EXPECT_THAT(table, HasSubstr("- no rule -> 24 layers, e.g. "));
}

// A tied head is untied in the open: a note, and two tensors in the bits of the model.
TEST_F(EndToEnd, HeadAndEmbeddingAreQuantizedOnRequest) {
  ASSERT_EQ(
      run({"--set", "method.name=gptq", "--set", "quant.head=8", "--set", "quant.embedding=4"})
          .code,
      kExitOk);
  const Record record = records().at(0);
  ASSERT_EQ(record.layers.size(), 44u);
  EXPECT_EQ(record.layers.front().layer, "model.embed_tokens");
  EXPECT_EQ(record.layers.front().method, "rtn");
  EXPECT_EQ(record.layers.front().bits, 4);
  EXPECT_EQ(record.layers.back().layer, "lm_head");
  EXPECT_EQ(record.layers.back().method, "gptq");
  EXPECT_EQ(record.layers.back().tokens, 8 * 64);
  EXPECT_LT(*record.layers.back().relative_error, *record.layers.back().relative_error_rtn);
  EXPECT_THAT(record.notes,
              testing::Contains(
                  HasSubstr("lm_head shared its weights with model.embed_tokens and is untied")));
  // Both are 2048 x 192 in groups of 64 columns, a float16 scale and a zero of the codes' width
  // each; 13 norms of 192 stay float32.
  const double blocks = 6 * 393216 * (3 + 19.0 / 64);
  const double ends = 2048 * 192 * (8 + 24.0 / 64 + 4 + 20.0 / 64);
  const double all = 6 * 393216 + 2 * 2048 * 192 + 13 * 192;
  EXPECT_NEAR(find_metric(record, "bits_per_weight.linear")->value, 3 + 19.0 / 64, 1e-9);
  EXPECT_NEAR(find_metric(record, "bits_per_weight.model")->value,
              (blocks + ends + 13 * 192 * 32) / all, 1e-9);
  EXPECT_THAT(read_file(fs::path(output()) / "layers.csv"), HasSubstr(",lm_head,gptq,8,64,"));
}

TEST_F(EndToEnd, DivergenceFromTheDenseModelIsZeroForItselfAndInEveryTable) {
  std::string with = text();
  const std::string sweep = "sweep:\n";
  with.insert(with.find(sweep),
              "  - divergence: {datasets: [builtin], seqlen: 32, max_windows: 4}\n");
  write("experiment.yaml", with);
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  ASSERT_EQ(records().size(), 3u);
  const auto value = [&](size_t cell, const std::string& name) {
    return find_metric(records().at(cell), "divergence.builtin." + name)->value;
  };
  for (const char* name : {"mean_kl", "p99_kl", "max_kl", "right_token_probability_change"})
    EXPECT_EQ(value(0, name), 0) << name;
  EXPECT_EQ(value(0, "top1_agreement"), 1);
  for (size_t cell : {1, 2}) {
    EXPECT_GT(value(cell, "mean_kl"), 0);
    EXPECT_GT(value(cell, "max_kl"), value(cell, "p99_kl"));
    EXPECT_LT(value(cell, "top1_agreement"), 1);
  }
  EXPECT_EQ(evaluation_windows_of(records()[1], "builtin", "divergence")->seqlen, 32);
  EXPECT_EQ(evaluation_windows_of(records()[1], "builtin")->seqlen, 64);
  EXPECT_THAT(outcome.out, HasSubstr("## Divergence from the dense model"));
  EXPECT_THAT(read_file(fs::path(output()) / "results.csv"),
              HasSubstr("divergence.builtin.mean_kl,"));
}

// Faults EH-07, EH-08, EH-10.
TEST_F(EndToEnd, ASecondRunKeepsWhatIsDoneAndAFreshOneGivesTheSameNumbers) {
  run();
  const std::vector<Record> first = records();
  const Outcome again = run();
  EXPECT_EQ(again.code, kExitOk);
  EXPECT_THAT(again.err, HasSubstr("kept from an earlier run"));
  run({"--fresh"});
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(find_metric(first[i], "perplexity.builtin")->samples,
              find_metric(records()[i], "perplexity.builtin")->samples);
    EXPECT_EQ(first[i].cell, records()[i].cell);
  }
}

TEST_F(EndToEnd, AChangedSettingRerunsOnlyItsCells) {
  run();
  write("experiment.yaml", text() + "seeds: [1]\n");
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, kExitOk);
  // Dense and RTN do not depend on the calibration seed, so only GPTQ is a new cell.
  EXPECT_EQ(records().size(), 4u);
}

TEST_F(EndToEnd, InterruptedWorkGoesOnAndEndsInTheSameNumbers) {
  run();
  const std::vector<double> expected = find_metric(records()[2], "perplexity.builtin")->samples;
  fs::remove_all(output());
  interrupt_requested() = true;
  const Outcome stopped = run();
  EXPECT_EQ(stopped.code, kExitInterrupted);
  EXPECT_THAT(stopped.err, HasSubstr("run the same command again to resume"));
  interrupt_requested() = false;
  EXPECT_EQ(run().code, kExitOk);
  EXPECT_EQ(find_metric(records()[2], "perplexity.builtin")->samples, expected);
}

// Blocks replace every linear, so nothing but their origin tells that they are another model's.
TEST_F(EndToEnd, KeptBlocksOfAnotherModelAreNotUsed) {
  const fs::path model = folder_ / "model";
  fs::copy(fs::path(GPTQB_SOURCE_DIR) / "assets/quickstart-model", model);
  const std::vector<std::string> settings = {"--set", "model.path=" + model.string(), "--set",
                                             "method.name=gptq"};
  run(settings);
  const Record first = records().at(0);
  FinishedBlock block;
  FileResumeStore(output(), first.cell_id, nullptr, "other inputs").save(0, block);
  fs::remove(record_path(output(), first.cell_id));
  const Outcome outcome = run(settings);
  EXPECT_THAT(outcome.err, HasSubstr("made from another model, other data or on another device"));
  EXPECT_EQ(records().at(0).resumed_blocks, 0);
  EXPECT_EQ(find_metric(records().at(0), "perplexity.builtin")->samples,
            find_metric(first, "perplexity.builtin")->samples);
}

TEST_F(EndToEnd, AFinishedRecordStaysWhenItsInputsAreOutOfReach) {
  const fs::path model = folder_ / "model";
  fs::copy(fs::path(GPTQB_SOURCE_DIR) / "assets/quickstart-model", model);
  const std::vector<std::string> settings = {"--set", "model.path=" + model.string(), "--set",
                                             "method.name=none"};
  run(settings);
  const double before = perplexity(0);
  fs::rename(model, folder_ / "moved");
  std::vector<std::string> elsewhere = settings;
  elsewhere.insert(elsewhere.end(), {"--set", "name=other"});
  const Outcome outcome = run(elsewhere);
  EXPECT_NE(outcome.code, kExitOk);
  EXPECT_THAT(outcome.out, HasSubstr("# other\n"));
  EXPECT_THAT(outcome.err, HasSubstr("kept but could not be checked"));
  EXPECT_EQ(records().at(0).status, CellStatus::kOk);
  EXPECT_EQ(perplexity(0), before);
}

TEST_F(EndToEnd, RaisedDampingIsMarkedInTheTable) {
  const Outcome outcome = run({"--set", "method.name=gptq", "--set", "method.damping=0", "--set",
                               "calibration.samples=1", "--set", "calibration.seqlen=16", "--set",
                               "calibration.heldout=0"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("damping raised in "));
}

TEST_F(EndToEnd, AMisspeltMetricFailsItsGate) {
  write("experiment.yaml", text() +
                               "expect:\n  - {where: {method.name: gptq}, metric: seconds.qantize, "
                               "at_most: 100, source: a test}\n");
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.out, HasSubstr("the record has no such metric"));
}

// Windows that begin with BOS are other windows, though their text is the same.
TEST_F(EndToEnd, CellsWithAnotherStartTokenAreNotPaired) {
  write("experiment.yaml", text() + "  evaluate.perplexity.bos: [none, every_window]\n");
  run({"--set", "method.name=none"});
  const std::string table = read_file(fs::path(output()) / "table.md");
  EXPECT_THAT(table, Not(HasSubstr("tie (")));
}

// Faults EH-13: one cell fails, the others stand, and the exit code says so.
TEST_F(EndToEnd, AFailedCellIsRecordedAndTheRestGoesOn) {
  write("experiment.yaml",
        text() + "cells:\n  - {quant.group_size: 64}\n  - {calibration.seqlen: 100000}\n");
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, kExitFailed);
  int failed = 0;
  for (const Record& record : records()) {
    if (record.status != CellStatus::kFailed) continue;
    ++failed;
    EXPECT_THAT(record.reason, HasSubstr("100000"));
    EXPECT_TRUE(record.metrics.empty());
  }
  EXPECT_EQ(failed, 1);
  EXPECT_THAT(outcome.out, HasSubstr("failed"));
}

TEST_F(EndToEnd, VerdictsDecideTheExitCode) {
  write("experiment.yaml", text() +
                               "expect:\n  - {where: {method.name: none}, metric: "
                               "perplexity.builtin, at_most: 1, source: a test}\n");
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("FAIL"), HasSubstr("at most 1"), HasSubstr("a test")));
  // The report made later from the records alone says the same.
  EXPECT_THAT(run_program({"report", output()}).out, HasSubstr("FAIL"));
}

TEST_F(EndToEnd, AMissingModelSaysWhereItWasLookedFor) {
  write("experiment.yaml",
        "name: tiny\nmodel: {path: /nowhere/llama}\nmethod: {name: none}\n"
        "evaluate: [{perplexity: {datasets: [builtin], seqlen: 64}}]\n");
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, kExitBadInput);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("/nowhere/llama"), HasSubstr("config.json")));
  EXPECT_THAT(run_program({"plan", experiment_}).out, HasSubstr("missing: "));
}

TEST_F(EndToEnd, BadInputIsOneClearErrorBeforeAnyWork) {
  write("experiment.yaml", text() + "quantt: {bits: 5}\n");
  const Outcome outcome = run();
  EXPECT_EQ(outcome.code, kExitBadInput);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("experiment.yaml:9:1"), HasSubstr("quantt"), HasSubstr("quant")));
  EXPECT_FALSE(fs::exists(output()));
  EXPECT_EQ(run_program({"run", "/nowhere/x.yaml"}).code, kExitBadInput);
  EXPECT_EQ(run_program({"list", "methodz"}).code, kExitBadInput);
  write("experiment.yaml", text());
  EXPECT_THAT(run({"--device", "cuda:x"}).err,
              HasSubstr("[--device] expected cpu, cuda or cuda:N, got 'cuda:x'"));
  EXPECT_THAT(run({"--set", "resume=maybe"}).err, HasSubstr("resume"));
  EXPECT_THAT(run({"--device", "tpu"}).err,
              HasSubstr("[--device] expected cpu, cuda or cuda:N, got 'tpu'"));
  EXPECT_THAT(run({"--shard", "3/3"}).err,
              HasSubstr("[--shard] expected I/N with 0 <= I < N, got '3/3'"));
}

// The names of the layers are in the model's config: no cell need start to find a glob without one.
TEST_F(EndToEnd, GlobsThatMatchNoLayerAreAnErrorBeforeAnyWork) {
  for (const std::string more : {"overrides: [{match: \"*.dwon_proj\", skip: true}]\n",
                                 "method: {layers: \"*.dwon_proj\"}\n"}) {
    write("experiment.yaml", text() + more);
    for (const Outcome& outcome : {run(), run_program({"plan", experiment_})}) {
      EXPECT_EQ(outcome.code, kExitBadInput);
      EXPECT_THAT(outcome.err, AllOf(HasSubstr("expected '*.dwon_proj' to match a layer, got none "
                                               "of 42. Layers are named like model.layers.0."),
                                     HasSubstr("experiment.yaml")));
    }
    EXPECT_FALSE(fs::exists(output()));
  }
}

TEST_F(EndToEnd, PlanNamesAModelThatCannotBeOpened) {
  fs::create_directories(folder_ / "model");
  write("model/config.json", "{}");
  const Outcome outcome =
      run_program({"plan", experiment_, "--set", "model.path=" + (folder_ / "model").string()});
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("broken: "), HasSubstr("model_type")));
}

// More rows than any linear has are all of them: no sample, and the model is evaluated.
TEST_F(EndToEnd, OnlyASampleOfRowsIsMarkedAsOne) {
  ASSERT_EQ(run({"--set", "method.name=rtn"}).code, kExitOk);
  const double whole = perplexity(0);
  ASSERT_EQ(run({"--set", "method.name=rtn", "--set", "method.rows=512", "--fresh"}).code, kExitOk);
  for (const Record& record : records()) {
    EXPECT_TRUE(record.notes.empty());
    EXPECT_EQ(find_metric(record, "perplexity.builtin")->value, whole);
  }
  EXPECT_THAT(read_file(fs::path(output()) / "table.md"), Not(HasSubstr("512 rows a linear")));
  const Outcome sampled = run({"--set", "method.name=rtn", "--set", "method.rows=511"});
  EXPECT_THAT(sampled.out,
              AllOf(HasSubstr("511 rows a linear"), HasSubstr("sample: only 511 evenly spaced")));
}

// Faults EH-07: a cell that two experiments share stands in the tables of each.
TEST_F(EndToEnd, ASharedCellIsShownUnderTheExperimentThatRuns) {
  run({"--set", "method.name=rtn"});
  write("experiment.yaml", text());
  const Outcome outcome = run({"--set", "name=other", "--set", "method.name=rtn"});
  EXPECT_THAT(outcome.err, HasSubstr("kept from an earlier run"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("# other\n"), Not(HasSubstr("# tiny"))));
  EXPECT_EQ(records().at(0).experiment, "other");
}

TEST_F(EndToEnd, TokenizerAndModelMustBelongTogether) {
  const fs::path other = test::shared_root() / "models/llama-tokenizer/tokenizer.model";
  GPTQB_REQUIRE_PATH(other);
  const fs::path model = folder_ / "model";
  fs::copy(fs::path(GPTQB_SOURCE_DIR) / "assets/quickstart-model", model);
  fs::copy_file(other, model / "tokenizer.model", fs::copy_options::overwrite_existing);
  const Outcome outcome = run({"--set", "model.path=" + model.string()});
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(
      outcome.out,
      HasSubstr("expected a tokenizer of at most 2048 ids, the model's vocabulary, got 32000"));
}

// Faults EH-19: the record alone gives the same row again.
TEST_F(EndToEnd, ARecordCanBeRunAgain) {
  run();
  const Record record = records()[2];
  const std::string again = (folder_ / "again").string();
  const Outcome outcome =
      run_program({"rerun", record_path(output(), record.cell_id).string(), "--output", again});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  const std::vector<Record> copies = load_records(again).records;
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0].cell_id, record.cell_id);
  EXPECT_EQ(find_metric(copies[0], "perplexity.builtin")->samples,
            find_metric(record, "perplexity.builtin")->samples);
  EXPECT_EQ(run_program({"compare", output(), again}).code, kExitFailed)
      << "two of three cells are missing";
}

TEST_F(EndToEnd, SetAndShardChooseWhatRuns) {
  run({"--set", "method.name=none"});
  EXPECT_EQ(records().size(), 1u);
  fs::remove_all(output());
  run({"--shard", "1/3"});
  ASSERT_EQ(records().size(), 1u);
  EXPECT_EQ(records()[0].setting("method.name"), "rtn");
}

TEST_F(EndToEnd, CommandsThatOnlyReadLeaveNothing) {
  EXPECT_THAT(run_program({"--version"}).out, HasSubstr("gptq-bench"));
  EXPECT_THAT(run_program({"list", "methods"}).out,
              AllOf(HasSubstr("gptq"), HasSubstr("rtn"), HasSubstr("none")));
  EXPECT_THAT(run_program({"schema"}).out, HasSubstr("quant.group_size"));
  EXPECT_THAT(run_program({"doctor"}).out, HasSubstr("build"));
  EXPECT_THAT(run_program({"plan", experiment_}).out, HasSubstr("gptq"));
  EXPECT_FALSE(fs::exists(output()));
}

}  // namespace
}  // namespace gptqb
