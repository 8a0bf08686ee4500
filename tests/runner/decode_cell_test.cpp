// decode_latency from an experiment file to its table: settings, cells, room, speed-up.
#include "runner/decode_cell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/atomic_file.h"
#include "methods/quantizer.h"
#include "runner/generation_room.h"
#include "runner/metric_kind.h"
#include "runner/record.h"
#include "runner/report/sections.h"
#include "tests/runner/planned.h"
#include "tests/runner/record_samples.h"
#include "tests/runner/run_program.h"
#include "tests/support/temporary_folder.h"

namespace gptqb::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

PlanOptions with_decoding() {
  return {.methods = {"none", "rtn", "gptq", "llm_int8"},
          .evaluators = {"perplexity", "decode_latency"}};
}

Plan decoding(const std::string& options, const std::string& more = "") {
  return plan("evaluate: [{decode_latency: {" + options + "}}]\n" + more, {}, with_decoding());
}

TEST(DecodeCell, SettingsBecomeATask) {
  const Plan made = decoding(
      "prompt: 7, generate: 5, batch: [1, 16], warmup: 2, repeats: 4, teacher_forced: true, check: "
      "3, dataset: wikitext2",
      "method: {name: none}\n");
  EXPECT_EQ(made.cells.at(0).skip_reason, "");
  const EvaluatorSpec& spec = made.cells[0].cell.evaluators().at(0);
  EXPECT_EQ(spec.name, "decode_latency");
  EXPECT_EQ(spec.decode.prompt, 7);
  EXPECT_EQ(spec.decode.generate, 5);
  EXPECT_THAT(spec.decode.batch, ElementsAre(1, 16));
  EXPECT_EQ(spec.decode.warmup, 2);
  EXPECT_EQ(spec.decode.repeats, 4);
  EXPECT_TRUE(spec.decode.teacher_forced);
  EXPECT_EQ(spec.decode.check, 3);
  EXPECT_EQ(spec.datasets.at(0).name, "wikitext2");
  EXPECT_EQ(spec.seqlen, 11) << "the prompt, and what is fed after it";
  EXPECT_EQ(spec.max_windows, 16);
  const EvaluatorSpec published =
      decoding("teacher_forced: true", "method: {name: none}\n").cells[0].cell.evaluators()[0];
  EXPECT_EQ(published.decode.prompt, 0);
  EXPECT_EQ(published.seqlen, 128);
  EXPECT_EQ(published.max_windows, 1);
  EXPECT_EQ(published.datasets.at(0).name, "random");
  EXPECT_EQ(published.decode.check, DecodeTask::kCheckAuto);
}

TEST(DecodeCell, OnlyMetricsThatComeOutCanBeExpected) {
  const auto gate = [](const std::string& metric) {
    return message_of([&] {
      decoding("batch: [1, 4]",
               "method: {name: none}\nexpect: [{metric: " + metric + ", at_most: 1, source: x}]\n");
    });
  };
  EXPECT_EQ(gate("decode.batch4.ms_per_token"), "nothing was thrown");
  EXPECT_THAT(gate("decode.batch2.ms_per_token"), HasSubstr("decode.batch4.ms_per_token"));
  EXPECT_THAT(message_of([&] { decoding("generate: 1", "method: {name: none}\n"); }),
              HasSubstr("expected an integer >= 2, got '1'"));
}

// Of these there is no packed checkpoint, so no codes to time.
TEST(DecodeCell, CellsWhoseCodesCannotBePackedAreSkippedWithTheReason) {
  const Plan made = decoding("batch: 1",
                             "sweep: {method.name: [none, rtn, llm_int8], model.backend: [auto, "
                             "dense]}\n");
  for (const PlannedCell& planned : made.cells) {
    const bool packed = planned.cell.model().backend == "auto";
    EXPECT_EQ(times_its_codes(planned.cell), packed && !planned.cell.dense());
    if (packed && planned.cell.method().name == "llm_int8")
      EXPECT_THAT(planned.skip_reason, HasSubstr("packed checkpoints cannot hold them"));
    else
      EXPECT_EQ(planned.skip_reason, "");
  }
}

TEST(DecodeCell, TimesAreTimesAndBytesAreNot) {
  for (const char* time :
       {"decode.batch1.ms_per_token", "decode.batch16.ms_per_token_p90",
        "decode.batch1.ms_first_token", "decode.batch1.ms_per_token_extrapolated"}) {
    EXPECT_TRUE(is_time(time)) << time;
    EXPECT_TRUE(is_timed(time)) << time;
    EXPECT_FALSE(higher_is_better(time)) << time;
  }
  for (const char* rate : {"decode.batch1.tokens_per_second", "decode.batch1.bandwidth_share"}) {
    EXPECT_FALSE(is_time(rate)) << rate;
    EXPECT_TRUE(is_timed(rate)) << rate;
    EXPECT_TRUE(higher_is_better(rate)) << rate;
  }
  for (const char* fixed : {"decode.batch1.bytes_cache", "decode.batch1.checked_tokens"}) {
    EXPECT_FALSE(is_timed(fixed)) << fixed;
    EXPECT_FALSE(is_reading(fixed)) << fixed;
  }
}

class DecodeRun : public testing::Test {
 protected:
  Outcome run(const std::string& text) const {
    write_file_atomically(folder_.path() / "d.yaml", text);
    return run_program({"run", (folder_.path() / "d.yaml").string(), "--output", output()});
  }
  std::string output() const { return (folder_.path() / "out").string(); }

 private:
  const TemporaryFolder folder_;
};

const std::string kTiny =
    "name: d\n"
    "model: {synthetic: {architecture: llama, hidden_size: 64, intermediate_size: 128, heads: 2, "
    "layers: 2, vocab_size: 100}, dtype: bfloat16}\n"
    "quant: {group_size: 32}\n";

TEST_F(DecodeRun, DenseAndQuantizedCellsStandSideBySide) {
  const Outcome outcome =
      run(kTiny +
          "evaluate: [{decode_latency: {prompt: 3, generate: 4, batch: [1, 2], warmup: 1}}]\n"
          "cells: [{method.name: none}, {method.name: rtn, quant.bits: 4}, {method.name: rtn, "
          "quant.bits: 4, model.backend: dense}]\n");
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("## Tokens written"), HasSubstr("cpu_rows"),
                                 HasSubstr("4 bits, groups of 32")));
  const auto records = load_records(output()).records;
  ASSERT_EQ(records.size(), 3u);
  const auto weights = [&](size_t cell) {
    return find_metric(records[cell], "decode.batch2.bytes_weights")->value;
  };
  for (const Record& record : records) {
    EXPECT_EQ(record.status, CellStatus::kOk) << record.reason;
    EXPECT_EQ(find_metric(record, "decode.batch2.ms_per_token")->samples.size(), 3u);
    EXPECT_EQ(find_metric(record, "decode.batch2.checked_tokens")->value, 8);
    EXPECT_TRUE(record.inputs.tokenizer.empty()) << "ids need none";
  }
  EXPECT_LT(weights(1), weights(0));
  EXPECT_EQ(weights(2), weights(0)) << "dequantized";
  EXPECT_EQ(records[1].policies.at("packed_products"), "cpu_rows");
  EXPECT_FALSE(std::filesystem::exists(output() + "/work")) << "the checkpoint is gone";
}

// The published loop: no prompt, given tokens fed one by one.
TEST_F(DecodeRun, APartOfAModelIsExtrapolatedAndSaysSo) {
  const Outcome outcome = run(
      "name: d\nmodel: {synthetic: {like: opt-125m, layers: 1}, dtype: float32}\n"
      "method: {name: none}\n"
      "evaluate: [{decode_latency: {generate: 3, teacher_forced: true, check: 1, warmup: 0}}]\n");
  ASSERT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("only 1 blocks; all of them"), HasSubstr("extrapolated")));
  const Record record = load_records(output()).records.at(0);
  EXPECT_EQ(find_metric(record, "decode.batch1.ms_per_token")->samples.size(), 3u);
  // Blocks of 12 x 768^2 weights and 50272 x 768 of the head: 12 blocks read 2.7 times as much.
  EXPECT_NEAR(find_metric(record, "decode.batch1.ms_per_token_extrapolated")->value /
                  find_metric(record, "decode.batch1.ms_per_token")->value,
              (12 * 7.08 + 38.6) / (7.08 + 38.6), 0.1);
}

TEST_F(DecodeRun, AModelWithoutRoomIsRefusedBeforeAnyWork) {
  const Outcome outcome =
      run("name: d\nmodel: {synthetic: {like: opt-175b}, dtype: float16}\nmethod: {name: none}\n"
          "evaluate: [{decode_latency: {generate: 2048, batch: 64}}]\n");
  EXPECT_NE(outcome.code, 0);
  const Record record = load_records(output()).records.at(0);
  EXPECT_EQ(record.status, CellStatus::kSkipped);
  // 175 billion weights of 2 bytes; keys and values of 96 blocks, 12288 wide, 64 x 2048 tokens.
  EXPECT_THAT(record.reason,
              AllOf(HasSubstr("does not fit: [memory of cpu] expected room for "),
                    HasSubstr("weights 325.2 GiB"), HasSubstr("cache of keys and values 576.0 GiB"),
                    HasSubstr("activations "), HasSubstr(" free. Use a smaller batch")));
}

TEST_F(DecodeRun, MoreTokensThanPositionsAreAFault) {
  const Outcome outcome = run(kTiny +
                              "method: {name: none}\n"
                              "evaluate: [{decode_latency: {prompt: 4000, generate: 98}}]\n");
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err,
              HasSubstr("expected a prompt and generated tokens of at most 4096 together, which is "
                        "what the model has positions for, got 4097"));
}

TEST(GenerationRoom, TheSmallerOfWhatIsFreeAndTheLimitCounts) {
  const GenerationMemory memory{.weights = 3 << 20, .cache = 2 << 20, .activations = 1 << 20};
  EXPECT_EQ(message_of([&] { require_room(memory, at::kCPU, std::nullopt, "Go."); }),
            "nothing was thrown");
  EXPECT_EQ(message_of([&] { require_room(memory, at::kCPU, 6 << 20, "Go."); }),
            "nothing was thrown");
  EXPECT_EQ(message_of([&] { require_room(memory, at::kCPU, 5 << 20, "Go."); }),
            "[memory of cpu] expected room for 6291456 bytes, 6 MiB (weights 3 MiB, cache of keys "
            "and values 2 MiB, activations 1 MiB), got 5242880 bytes, 5 MiB, the limit that was "
            "set. Go.");
}

// A record of a step that took `median` ms.
Record timed(const std::string& id, std::vector<std::pair<std::string, std::string>> settings,
             double median) {
  Record made;
  made.cell_id = id;
  made.experiment = "d";
  made.settings = std::move(settings);
  made.settings.emplace_back("evaluate.decode_latency.prompt", "0");
  made.environment.device = "cpu";
  const std::string at = "decode.batch1.";
  made.metrics = {metric("decode.read_gb_per_s", 10),
                  metric(at + "ms_per_token", median),
                  metric(at + "ms_per_token_p10", 0.9 * median),
                  metric(at + "ms_per_token_p90", 1.25 * median),
                  metric(at + "ms_first_token", 1),
                  metric(at + "tokens_per_second", 1000 / median),
                  metric(at + "bandwidth_share", 0.5),
                  metric(at + "bytes_per_token", 1e9),
                  metric(at + "bytes_weights", 2e9),
                  metric(at + "bytes_cache", 1e9),
                  metric(at + "bytes_activations", 5e8),
                  metric(at + "checked_tokens", 0)};
  return made;
}

std::vector<std::string> column(const Section& section, const std::string& title) {
  std::vector<std::string> cells;
  for (size_t i = 0; i < section.table.columns().size(); ++i)
    if (section.table.columns()[i].title == title)
      for (const auto& row : section.table.rows()) cells.push_back(row[i]);
  return cells;
}

TEST(DecodeTable, SpeedUpHasASpreadAndNamesWhatItIsOver) {
  const std::string like = "model.synthetic.like";
  const Record dense =
      timed("a", {{"method.name", "none"}, {"model.dtype", "float16"}, {like, "x"}}, 10);
  const Record packed = timed("b",
                              {{"method.name", "none"},
                               {"model.backend", "packed"},
                               {"model.synthetic.packed.bits", "4"},
                               {"model.synthetic.packed.group_size", "128"},
                               {like, "x"}},
                              4);
  const Record slower = timed(
      "c", {{"method.name", "rtn"}, {"quant.bits", "8"}, {"quant.group_size", "-1"}, {like, "x"}},
      20);
  const Record other = timed(
      "d", {{"method.name", "rtn"}, {"quant.bits", "8"}, {"quant.group_size", "-1"}, {like, "y"}},
      20);
  const Section section = decode_section({&dense, &packed, &slower, &other});
  // 9 / 5 and 12.5 / 3.6; 9 / 25 and 12.5 / 18.
  EXPECT_THAT(column(section, "vs dense"), ElementsAre("(baseline)", "2.50x [1.80, 3.47]",
                                                       "0.500x [0.360, 0.694], slower", "–"));
  EXPECT_THAT(column(section, "weights"), ElementsAre("float16", "4 bits, groups of 128",
                                                      "8 bits, whole rows", "8 bits, whole rows"));
  EXPECT_THAT(column(section, "GB"), ElementsAre("3.50", "3.50", "3.50", "3.50"));
  EXPECT_THAT(column(section, "marks")[0], "not checked");
}

// A model that was made packed is no dense one, whatever its method.
TEST(DecodeTable, MadeCodesShowTheirBits) {
  const Record packed = timed("b",
                              {{"method.name", "none"},
                               {"model.backend", "packed"},
                               {"model.dtype", "float16"},
                               {"model.synthetic.like", "x"},
                               {"model.synthetic.packed.bits", "3"}},
                              4);
  EXPECT_THAT(column(decode_section({&packed}), "weights"), ElementsAre("3 bits, whole rows"));
  EXPECT_THAT(column(main_section({&packed}, {packed}), "bits"), ElementsAre("3"));
  EXPECT_THAT(column(main_section({&packed}, {packed}), "group"), ElementsAre("row"));
}

TEST(DecodeTable, AnExtrapolatedBaselineIsNeverShownAsMeasured) {
  const std::string like = "model.synthetic.like";
  Record part = timed("a",
                      {{"method.name", "none"},
                       {"model.dtype", "float16"},
                       {like, "x"},
                       {"model.synthetic.layers", "12"}},
                      10);
  part.metrics.push_back(metric("decode.batch1.ms_per_token_extrapolated", 80));
  const Record packed = timed("b",
                              {{"method.name", "none"},
                               {"model.backend", "packed"},
                               {like, "x"},
                               {"model.synthetic.layers", "all"}},
                              20);
  const Section section = decode_section({&part, &packed});
  EXPECT_THAT(column(section, "ms per token"), ElementsAre("10.0", "20.0"));
  EXPECT_THAT(column(section, "vs dense")[1], "4.00x [2.88, 5.56], dense extrapolated");
  EXPECT_THAT(column(section, "marks")[0],
              "only 12 blocks; all of them 80.0 ms, extrapolated; not checked");
}

}  // namespace
}  // namespace gptqb::test
