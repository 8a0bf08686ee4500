// From a prompt to the end of a text, on the model that the program carries.
#include "eval/generation.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/models/model_folder.h"
#include "tests/support/message.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;

const std::string kModel = GPTQB_SOURCE_DIR "/assets/quickstart-model";
const std::vector<int32_t> kPrompt = {1, 40, 300, 77, 512, 9, 1033};

std::vector<int32_t> recomputed(CausalLm& model, std::vector<int32_t> ids, int64_t count) {
  std::vector<int32_t> written;
  for (; count > 0; --count) {
    const at::Tensor logits = run_model(model, at::tensor(ids, at::kLong).unsqueeze(0));
    written.push_back(logits[0][-1].argmax().item<int32_t>());
    ids.push_back(written.back());
  }
  return written;
}

class Generate : public testing::Test {
 protected:
  Generation write(const GenerationOptions& options, const std::vector<int32_t>& prompt = kPrompt,
                   int64_t chunk = 256) {
    DecodeSession session(*model_, {.batch = 1, .positions = 512, .chunk = chunk});
    return generate(session, prompt, options, [](int32_t) { return true; });
  }
  static GenerationOptions options(int64_t tokens) {
    GenerationOptions result;
    result.max_tokens = tokens;
    return result;
  }

  std::unique_ptr<CausalLm> model_ = open_model(kModel, {.dtype = "float32"});
};

TEST_F(Generate, TheCarriedModelWritesWhatRecomputingWrites) {
  const auto oracle = open_model(kModel, {.dtype = "float32"});
  oracle->hold_blocks();
  EXPECT_EQ(write(options(24)).ids, recomputed(*oracle, kPrompt, 24));
  std::vector<int32_t> prompt = {1};
  while (prompt.size() < 480) prompt.push_back(3 + (prompt.size() * 37) % 2000);
  EXPECT_EQ(write(options(6), prompt, 100).ids, recomputed(*oracle, prompt, 6));
  EXPECT_EQ(write(options(6), {1}).ids, recomputed(*oracle, {1}, 6));
}

TEST_F(Generate, EndsWhereItShould) {
  const Generation free = write(options(12));
  EXPECT_EQ(free.end, GenerationEnd::kMaxTokens);
  EXPECT_EQ(free.ids.size(), 12u);
  EXPECT_EQ(free.steps, 11);
  EXPECT_GT(free.first_seconds, 0);

  GenerationOptions ending = options(12);
  ending.end_ids = {free.ids[4]};
  const Generation ended = write(ending);
  EXPECT_EQ(ended.end, GenerationEnd::kEndToken);
  const auto first = std::find(free.ids.begin(), free.ids.end(), free.ids[4]);
  EXPECT_EQ(ended.ids, std::vector<int32_t>(free.ids.begin(), first));

  DecodeSession session(*model_, {.batch = 1, .positions = 64});
  int64_t seen = 0;
  const Generation stopped =
      generate(session, kPrompt, options(12), [&](int32_t) { return ++seen < 3; });
  EXPECT_EQ(stopped.end, GenerationEnd::kStopped);
  EXPECT_EQ(stopped.ids.size(), 3u);
}

TEST_F(Generate, IdsThatTheTokenizerLacksAreNeverWritten) {
  const Generation free = write(options(8));
  GenerationOptions known = options(8);
  known.known_ids = *std::max_element(free.ids.begin(), free.ids.end());
  for (const int32_t id : write(known).ids) EXPECT_LT(id, known.known_ids);
}

// EH-10 for text: the draws are a generator's of our own, whatever else draws or runs.
TEST_F(Generate, OneSeedOneTextForAnyNumberOfThreads) {
  GenerationOptions drawn = options(20);
  drawn.sampling = {.temperature = 0.9, .top_k = 50, .top_p = 0.95, .seed = 11};
  const int threads = at::get_num_threads();
  const std::vector<int32_t> ids = write(drawn).ids;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    at::rand({count});  // ATen's generator is none of ours
    EXPECT_EQ(write(drawn).ids, ids) << count;
  }
  at::set_num_threads(threads);
  drawn.sampling.seed = 12;
  EXPECT_NE(write(drawn).ids, ids);
}

TEST_F(Generate, ASessionSeesSeveralRowsAndSeveralPrompts) {
  DecodeSession session(*model_, {.batch = 2, .positions = 40, .chunk = 4});
  const at::Tensor ids =
      at::tensor({1, 40, 300, 77, 5, 1, 9, 1033, 64, 700}, at::kLong).view({2, 5});
  const at::Tensor next = at::tensor({12, 901}, at::kLong).view({2, 1});
  const auto oracle = open_model(kModel, {.dtype = "float32"});
  for (int round = 0; round < 2; ++round) {
    session.clear();
    EXPECT_LE(largest_difference(session.prefill(ids), run_model(*oracle, ids).select(1, 4)), 1e-4);
    EXPECT_LE(largest_difference(session.step(next),
                                 run_model(*oracle, at::cat({ids, next}, 1)).select(1, 5)),
              1e-4);
    EXPECT_EQ(session.cache().length(), 6);
  }
  EXPECT_THAT(message_of([&] { session.step(ids.narrow(0, 0, 1)); }),
              HasSubstr("expected ids [2, one or more], got [1 x 5]"));
}

TEST_F(Generate, AnEmptyPromptIsRefused) {
  EXPECT_THAT(message_of([&] { write(options(3), {}); }),
              HasSubstr("expected a prompt of one token or more, got none"));
}

TEST_F(Generate, MemoryIsPlannedFromShapes) {
  const DecodeOptions decode{.batch = 3, .positions = 300, .chunk = 64};
  const GenerationMemory memory = generation_memory(*model_, decode, false);
  EXPECT_EQ(memory.weights, 4 * model_->parameter_count());
  DecodeSession session(*model_, decode);
  EXPECT_EQ(memory.cache, session.cache().bytes());
  EXPECT_EQ(memory.cache, 2 * 6 * 3 * 2 * 512 * 32 * 4);  // 300 positions take 512
  EXPECT_GT(memory.activations, 3 * 64 * 512 * 4);
  EXPECT_EQ(memory.total(), memory.weights + memory.cache + memory.activations);
  EXPECT_THAT(
      message_of([&] { generation_memory(*model_, {.batch = 1, .positions = 513}, false); }),
      HasSubstr("expected at most 512 positions"));
}

}  // namespace
}  // namespace gptqb::test
