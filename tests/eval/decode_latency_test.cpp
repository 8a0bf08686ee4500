// Times of steps on a cache, on the model that the program carries and on packed ones; and the
// check that stands before them, on models that are wrong.
#include "eval/decode_latency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "common/statistics.h"
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
