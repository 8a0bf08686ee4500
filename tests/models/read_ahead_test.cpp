// The next block is read in the background: the same bits, the same errors, never seen otherwise.
#include "models/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "common/error.h"
#include "tests/models/model_folder.h"

namespace gptqb::test {
namespace {

using testing::HasSubstr;
using testing::Key;
using testing::UnorderedElementsAre;

at::Tensor named(const std::string& name) {
  return at::full({2}, static_cast<double>(name.size()));
}

TEST(ReadAhead, GivesTheBlockThatWasStartedAndNoOther) {
  ReadAhead ahead;
  EXPECT_TRUE(ahead.take(0).empty());
  ahead.start(1, {"a", "bcd"}, named);
  EXPECT_TRUE(ahead.take(2).empty());
  auto tensors = ahead.take(1);
  EXPECT_THAT(tensors, UnorderedElementsAre(Key("a"), Key("bcd")));
  EXPECT_TRUE(at::equal(std::get<at::Tensor>(tensors["bcd"]), at::full({2}, 3.0)));
  EXPECT_TRUE(ahead.take(1).empty()) << "it is given once";
  ahead.start(3, {"a"}, named);
  ahead.start(4, {"ab"}, named);
  EXPECT_TRUE(ahead.take(3).empty());
  EXPECT_THAT(ahead.take(4), UnorderedElementsAre(Key("ab")));
}

TEST(ReadAhead, WorksBesideItsCallerAndCountsItsTime) {
  ReadAhead ahead;
  const auto caller = std::this_thread::get_id();
  std::thread::id reader;
  ahead.start(0, {"a"}, [&](const std::string& name) {
    reader = std::this_thread::get_id();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return named(name);
  });
  ahead.take(0);
  EXPECT_NE(reader, caller);
  EXPECT_GE(ahead.busy_seconds(), 0.02);
}

TEST(ReadAhead, ErrorsWaitForWhoAsksForTheBlock) {
  const auto failing = [](const std::string& name) -> at::Tensor {
    throw Error(name, "expected weights, got none");
  };
  ReadAhead ahead;
  ahead.start(0, {"layer"}, failing);
  EXPECT_TRUE(ahead.take(1).empty());
  EXPECT_THAT(error_of([&] { ahead.take(0); }), HasSubstr("[layer] expected weights, got none"));
  ahead.start(0, {"layer"}, failing);
  ahead.drop();
  ahead.start(0, {"ok"}, named);
  EXPECT_THAT(ahead.take(0), UnorderedElementsAre(Key("ok")));
}

// What is dropped is not read to its end.
TEST(ReadAhead, DroppingStopsBetweenTensors) {
  ReadAhead ahead;
  std::atomic<int> loads = 0;
  ahead.start(0, std::vector<std::string>(1000, "a"), [&](const std::string& name) {
    ++loads;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return named(name);
  });
  ahead.drop();
  EXPECT_LT(loads, 1000);
}

at::Tensor some_ids() { return at::arange(24, at::kLong).remainder(31).view({2, 12}); }

void expect_same_model(CausalLm& with, CausalLm& without) {
  EXPECT_TRUE(at::equal(run_model(with, some_ids()), run_model(without, some_ids())));
  // Out of order as well: the block that was read is then not the one that is asked for.
  for (const int64_t block : {1, 0, 1, 0, 0, 1}) {
    with.load_block(block);
    without.load_block(block);
    for (const Stage& stage : with.stages())
      for (const std::string& linear : stage.linears)
        EXPECT_TRUE(at::equal(with.weight(linear), without.weight(linear))) << linear;
  }
  EXPECT_GT(with.read_busy_seconds(), 0);
}

TEST(ReadAhead, ModelsComputeTheSameWithAndWithout) {
  for (const char* variant : {"llama_mha", "opt_pre_norm"})
    for (const char* dtype : {"float32", "bfloat16"}) {
      const auto with = open_model(golden_folder(variant), {dtype, at::kCPU, true});
      const auto without = open_model(golden_folder(variant), {dtype, at::kCPU, false});
      expect_same_model(*with, *without);
    }
  SyntheticModel made;
  made.architecture = "llama";
  made.hidden_size = 32;
  made.intermediate_size = 48;
  made.heads = 4;
  made.layers = 2;
  made.vocab_size = 64;
  const auto with = open_synthetic(made, {"float32", at::kCPU, true});
  const auto without = open_synthetic(made, {"float32", at::kCPU, false});
  expect_same_model(*with, *without);
}

}  // namespace
}  // namespace gptqb::test
