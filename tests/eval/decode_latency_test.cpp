// Times of steps on a cache, on the model that the program carries and on packed ones; and the
// check that stands before them, on models that are wrong.
#include "eval/decode_latency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <numeric>
#include <vector>

#include "common/statistics.h"
#include "eval/evaluator.h"
#include "eval/plain_read.h"
#include "tests/models/model_folder.h"
#include "tests/support/message.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;

const std::string kModel = GPTQB_SOURCE_DIR "/assets/quickstart-model";

at::Tensor ids_of(int64_t rows, int64_t count, int64_t vocabulary = 2000) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < rows * count; ++i) ids.push_back((i * i * 7 + i * 13 + 5) % vocabulary);
  return at::tensor(ids, at::kLong).view({rows, count});
}

std::unique_ptr<CausalLm> llama7b(int64_t blocks = 0) {
  SyntheticModel shape;
  shape.like = "llama-7b";
  shape.layers = blocks;
  return open_synthetic(shape, {.dtype = "float16"});
}

TEST(DecodeLatency, ItsNumbersAgreeWithEachOther) {
  const auto model = open_model(kModel, {.dtype = "float32"});
  for (const int64_t batch : {1, 3})
    for (const int64_t prompt : {0, 9})
      for (const bool forced : {false, true}) {
        const DecodeTask task{.prompt = prompt, .generate = 6, .teacher_forced = forced};
        const DecodeLatency got = measure_decode(*model, ids_of(batch, task.given()), task, 1e9);
        ASSERT_EQ(got.step_seconds.size(), prompt > 0 ? 5u : 6u);
        EXPECT_EQ(got.batch, batch);
        EXPECT_GT(got.first_seconds, 0);
        if (prompt == 0) {
          EXPECT_EQ(got.first_seconds, got.step_seconds.front());
        }
        EXPECT_EQ(got.median, quantile(got.step_seconds, 0.5));
        EXPECT_LE(got.p10, got.median);
        EXPECT_LE(got.median, got.p90);
        EXPECT_DOUBLE_EQ(got.tokens_per_second * got.median, static_cast<double>(batch));
        EXPECT_DOUBLE_EQ(got.bandwidth_share * got.median * 1e9, got.step_bytes.total());
        // 256 positions are read at any length up to there.
        EXPECT_EQ(got.step_bytes.cache, 256.0 * 4 * batch * model->cached_per_token());
        EXPECT_EQ(got.memory.cache, 256 * 4 * batch * model->cached_per_token());
      }
}

// By hand from the shapes in config.json: LLaMA blocks of q, k, v, o, gate, up, down and two norms,
// the last norm, and the head.
TEST(DecodeLatency, AStepReadsEachWeightOnceAndOfTheEmbeddingNothing) {
  const EditedModel edited("llama_mha");
  const auto model = edited.open();
  const int64_t hidden = edited.config["hidden_size"], wide = edited.config["intermediate_size"];
  const int64_t blocks = edited.config["num_hidden_layers"], words = edited.config["vocab_size"];
  const int64_t weights =
      blocks * (4 * hidden * hidden + 3 * hidden * wide + 2 * hidden) + hidden + words * hidden;
  const StepBytes bytes = step_bytes(*model, 2, 256, false);
  EXPECT_EQ(bytes.weights, 4.0 * weights);
  EXPECT_EQ(bytes.cache, 4.0 * 2 * 256 * 2 * blocks * hidden);
}

TEST(DecodeLatency, PackedLinearsCountAsTheirCodes) {
  const auto packed =
      open_model(golden_folder("packed_gptq_llama"), {.dtype = "float16", .backend = "packed"});
  const PackedShare share = packed->packed_share();
  ASSERT_GT(share.weights, 0);
  const double dense = step_bytes(*packed, 1, 256, false).weights;
  EXPECT_EQ(step_bytes(*packed, 1, 256, true).weights,
            dense - 2.0 * share.weights + share.bits / 8.0);
  const DecodeTask task{.prompt = 4, .generate = 3, .from_codes = true};
  measure_decode(*packed, ids_of(2, 4, packed->vocab_size()), task);
  EXPECT_FALSE(packed->kernels_run().empty());
}

TEST(DecodeLatency, WhatIsWrittenWithTheCacheIsCheckedWithoutIt) {
  const auto model = open_model(kModel, {.dtype = "float32"});
  DecodeSession session(*model, {.batch = 2, .positions = 32});
  for (int repeat = 0; repeat < 2; ++repeat) {  // the session is cleared
    const DecodeCheck check = check_decode(*model, session, ids_of(2, 11), 6);
    EXPECT_EQ(check.tokens, 12);
    EXPECT_EQ(check.undecided, 0);
    EXPECT_LT(check.largest_difference, 1e-5);
  }
  const auto packed =
      open_model(golden_folder("packed_gptq_llama"), {.dtype = "float16", .backend = "packed"});
  DecodeSession other(*packed, {.batch = 1, .positions = 32});
  const DecodeCheck check = check_decode(*packed, other, ids_of(1, 11, packed->vocab_size()), 6);
  EXPECT_LT(check.undecided, 6);
}

TEST(DecodeLatency, TheReadItIsHeldAgainstIsMeasured) {
  EXPECT_EQ(plain_read_bytes(1), 1 << 20);
  EXPECT_EQ(plain_read_bytes((1 << 20) + 1), 2 << 20);
  const double rate = read_bytes_per_second(at::kCPU, 1 << 24);
  EXPECT_GT(rate, 1e7);  // a word each 400 ns would be slower
  EXPECT_LT(rate, 1e13);
}

// A fault in what the cache's path computes: its model has lost a linear.
TEST(DecodeLatency, TheCheckFindsAPlantedFault) {
  const auto model = open_model(kModel, {.dtype = "float32"});
  const auto spoilt = open_model(kModel, {.dtype = "float32"});
  DecodeSession session(*spoilt, {.batch = 1, .positions = 32});
  spoilt->load_block(1);
  spoilt->try_weights("mlp.down_proj", at::zeros_like(spoilt->weight("mlp.down_proj")));
  EXPECT_THAT(message_of([&] { check_decode(*model, session, ids_of(1, 11), 8); }),
              testing::AllOf(HasSubstr("as recomputed without a cache, got"),
                             HasSubstr("times of a wrong result mean nothing")));
}

TEST(DecodeLatency, LogitsThatAreNotFiniteAreAFault) {
  const auto model = open_model(kModel, {.dtype = "float32"});
  DecodeSession session(*model, {.batch = 1, .positions = 32});
  model->load_block(0);
  model->try_weights("mlp.down_proj", at::full_like(model->weight("mlp.down_proj"), NAN));
  EXPECT_THAT(message_of([&] { check_decode(*model, session, ids_of(1, 4), 2); }),
              HasSubstr("expected finite logits, got others with the cache"));
}

TEST(DecodeLatency, PassesAreRepeated) {
  const auto model = open_model(kModel, {.dtype = "float32"});
  DecodeTask task{.prompt = 5, .generate = 4, .warmup = 0};
  task.repeats = 3;
  task.check = 2;
  const DecodeLatency got = measure_decode(*model, ids_of(6, 5), task);
  EXPECT_EQ(got.step_seconds.size(), 9u);
  EXPECT_EQ(got.check.steps, 2);
  EXPECT_EQ(got.check.tokens, 8) << "of 4 of the 6 sequences";
  EXPECT_TRUE(got.kernels.empty()) << "dense";
}

TEST(DecodeLatency, WhatIsCheckedFitsIntoSeconds) {
  const auto model = open_model(kModel, {.dtype = "float32"});
  DecodeTask task{.prompt = 64, .generate = 100};
  EXPECT_EQ(check_plan(*model, task, 2).steps, 8);
  EXPECT_EQ(check_plan(*model, task, 2).rows, 2);
  EXPECT_EQ(check_plan(*model, task, 64).rows, 4);
  task.generate = 3;
  EXPECT_EQ(check_plan(*model, task, 1).steps, 3);
  task.check = 0;
  EXPECT_EQ(check_plan(*model, task, 1).steps, 0);
  EXPECT_THAT(check_plan(*model, task, 1).reason, HasSubstr("check: 0"));
  // A step of 7 billion weights behind 128 tokens: 2 x 7e9 x 129 > 1e12 on two cores.
  const auto large = llama7b();
  task = {.prompt = 128};
  EXPECT_EQ(check_plan(*large, task, 1).steps, 0);
  EXPECT_THAT(check_plan(*large, task, 1).reason, HasSubstr("too large to be recomputed"));
  task.check = 2;
  EXPECT_EQ(check_plan(*large, task, 1).steps, 2) << "asked for";
}

// LLaMA-7B's blocks have 4 x 4096^2 + 3 x 4096 x 11008 + 2 x 4096 weights, its head 32000 x 4096.
TEST(DecodeLatency, MoreBlocksReadMoreAndTheHeadOnce) {
  const auto part = llama7b(2);
  const double block = 4.0 * 4096 * 4096 + 3.0 * 4096 * 11008 + 2 * 4096;
  const double head = 32000.0 * 4096 + 4096;
  StepBytes step = step_bytes(*part, 1, 256, false);
  EXPECT_EQ(step.weights, 2 * (2 * block + head));
  EXPECT_EQ(step.cache, 2.0 * 256 * 2 * 2 * 4096);
  EXPECT_DOUBLE_EQ(step_growth(*part, step, 32, false),
                   (2 * (32 * block + head) + 16 * step.cache) / step.total());
}

TEST(DecodeLatency, TheEvaluatorReportsEachBatch) {
  const auto model = open_model(kModel, {.dtype = "float32"});
  TokenWindows windows;
  windows.count = 2;
  windows.seqlen = 6;
  for (int i = 0; i < 12; ++i) windows.ids.push_back(3 * i + 1);
  DecodeTask task{.prompt = 6, .generate = 3, .warmup = 1};
  task.batch = {1, 3};
  task.blocks_of_whole = 10 * model->block_count();
  const auto evaluate = [&](const DecodeTask* given) {
    return evaluators()
        .at("decode_latency")
        .make()
        ->evaluate(*model, {{"text", &windows}}, {.decode = given});
  };
  std::map<std::string, Metric> metrics;
  for (const Metric& metric : evaluate(&task)) metrics[metric.name] = metric;
  EXPECT_GT(metrics.at("decode.read_gb_per_s").value, 0.01);
  for (const int64_t batch : {1, 3}) {
    const std::string at = "decode.batch" + std::to_string(batch) + ".";
    const Metric& median = metrics.at(at + "ms_per_token");
    EXPECT_EQ(median.samples.size(), 2u);
    EXPECT_NEAR(metrics.at(at + "tokens_per_second").value, 1e3 * batch / median.value,
                1e-6 * batch / median.value * 1e3);
    EXPECT_LE(metrics.at(at + "ms_per_token_p10").value, median.value);
    EXPECT_GE(metrics.at(at + "ms_per_token_p90").value, median.value);
    EXPECT_EQ(metrics.at(at + "bytes_weights").value, 4.0 * model->parameter_count());
    EXPECT_EQ(metrics.at(at + "checked_tokens").value, 3.0 * batch);
    EXPECT_THAT(metrics.at(at + "checked_tokens").note, HasSubstr("without a cache"));
    const Metric& all = metrics.at(at + "ms_per_token_extrapolated");
    EXPECT_GT(all.value, median.value);
    EXPECT_LT(all.value, 10 * median.value) << "the head is there once";
    EXPECT_THAT(all.note, HasSubstr("extrapolated, not measured"));
  }
  EXPECT_THAT(message_of([&] { evaluate(nullptr); }), HasSubstr("got no task and 1 texts"));
}

TEST(DecodeLatency, BadSettingsAreRefused) {
  const auto model = open_model(kModel, {.dtype = "float32"});
  const auto fault = [&](const DecodeTask& task, int64_t columns) {
    return message_of([&] { measure_decode(*model, ids_of(1, columns), task); });
  };
  EXPECT_THAT(fault({.prompt = 4, .generate = 1}, 4),
              HasSubstr("expected 2 generated tokens or more, got 1"));
  EXPECT_THAT(fault({.prompt = -1}, 4), HasSubstr("expected a prompt of 0 tokens or more, got -1"));
  EXPECT_THAT(fault({.warmup = -1}, 1), HasSubstr("expected 0 warm-up steps or more, got -1"));
  EXPECT_THAT(fault({.prompt = 4}, 5), HasSubstr("expected ids [one or more, 4], got [1 x 5]"));
  const int64_t most = model->max_positions();
  EXPECT_THAT(fault({.prompt = most, .generate = 2}, most),
              HasSubstr("expected at most " + std::to_string(most) + " positions"));
}

}  // namespace
}  // namespace gptqb::test
