// Finished blocks are kept beside the next one, and a run that was stopped goes on from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/error.h"
#include "methods/quantize_model.h"
#include "tests/support/memory_store.h"
#include "tests/support/tiny_model.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A run that was stopped goes on where it stopped and ends as if it had not been.
TEST(QuantizeModel, ResumeEqualsAnUninterruptedRun) {
  for (const bool dense_inputs : {false, true}) {
    for (const bool true_sequential : {false, true}) {
      auto options = options_for("gptq");
      options.method.inputs = dense_inputs ? StatsInputs::kDense : StatsInputs::kQuantized;
      options.method.true_sequential = true_sequential;
      TinyModel whole(3);
      const auto expected = quantize_model(whole, kCalibration, kHeldout, options);

      MemoryStore store;
      options.resume = &store;
      TinyModel stopped(3);
      stopped.interrupt_at = 2;
      EXPECT_THROW(quantize_model(stopped, kCalibration, kHeldout, options), Interrupted);
      interrupt_requested() = false;
      EXPECT_EQ(store.blocks.size(), 2U);

      TinyModel resumed(3);
      const auto report = quantize_model(resumed, kCalibration, kHeldout, options);
      EXPECT_EQ(report.resumed_blocks, 2);
      EXPECT_EQ(store.blocks.size(), 3U);
      ASSERT_EQ(report.layers.size(), expected.layers.size());
      for (size_t i = 0; i < expected.layers.size(); ++i) {
        EXPECT_EQ(report.layers[i].layer, expected.layers[i].layer);
        EXPECT_EQ(report.layers[i].loss, expected.layers[i].loss);
        EXPECT_EQ(report.layers[i].drift, expected.layers[i].drift);
        EXPECT_EQ(report.layers[i].relative_error_heldout,
                  expected.layers[i].relative_error_heldout);
      }
      EXPECT_EQ(report.quantized_bits, expected.quantized_bits);
      for (int64_t block = 0; block < 3; ++block)
        for (const char* linear : {"gate", "up", "down"})
          EXPECT_TRUE(at::equal(resumed.weight_of(block, linear), whole.weight_of(block, linear)));

      TinyModel again(3);  // everything is kept: nothing is quantized a second time
      EXPECT_EQ(quantize_model(again, kCalibration, kHeldout, options).resumed_blocks, 3);
      EXPECT_TRUE(at::equal(again.weight_of(2, "down"), whole.weight_of(2, "down")));
    }
  }
}

// The store is slow, and no block waits for the one before it to be kept but the next but one.
TEST(QuantizeModel, BlocksAreKeptWhileTheNextOneIsQuantized) {
  struct WaitingStore : MemoryStore {
    void save(int64_t block, const FinishedBlock& finished) override {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (blocks_begun <= block + 1 && block < 2 && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      late += std::chrono::steady_clock::now() >= deadline;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      MemoryStore::save(block, finished);
    }
    std::atomic<int64_t> blocks_begun = 0;
    std::atomic<int64_t> late = 0;
  };
  WaitingStore store;
  auto options = options_for("gptq");
  options.resume = &store;
  TinyModel model(3);
  model.on_load = [&](int64_t block) { store.blocks_begun = block + 1; };
  const auto report = quantize_model(model, kCalibration, kHeldout, options);
  EXPECT_EQ(store.late, 0) << "the next block was not begun before this one was kept";
  EXPECT_EQ(store.blocks.size(), 3U) << "all are kept when the call returns";
  EXPECT_GE(report.write_busy_seconds, 0.03);
}

TEST(QuantizeModel, ABlockThatCannotBeKeptEndsTheRun) {
  struct FullDisk : MemoryStore {
    void save(int64_t block, const FinishedBlock& finished) override {
      if (block == refused) throw Error("block file", "expected room on the disk, got none");
      MemoryStore::save(block, finished);
    }
    int64_t refused = 0;
  };
  for (const int64_t refused : {0, 2}) {
    FullDisk store;
    store.refused = refused;
    auto options = options_for("rtn");
    options.resume = &store;
    TinyModel model(3);
    EXPECT_THAT([&] { quantize_model(model, kCalibration, {}, options); },
                ThrowsMessage<Error>(HasSubstr("[block file] expected room on the disk")));
    EXPECT_EQ(static_cast<int64_t>(store.blocks.size()), refused);
  }
}

TEST(QuantizeModel, ResumeRefusesOtherActivations) {
  auto options = options_for("gptq");
  MemoryStore store;
  options.resume = &store;
  TinyModel first(2);
  quantize_model(first, kCalibration, {}, options);
  store.blocks.erase(1);
  TinyModel second(2);
  EXPECT_THAT([&] { quantize_model(second, random_ids(6, 16, 77), {}, options); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("[blocks.0]"), HasSubstr("different"), HasSubstr("--fresh"))));
  store.blocks[0].linears.erase("up");
  TinyModel third(2);
  EXPECT_THAT([&] { quantize_model(third, kCalibration, {}, options); },
              ThrowsMessage<Error>(AllOf(HasSubstr("[blocks.0.up]"), HasSubstr("--fresh"))));
}

}  // namespace
}  // namespace gptqb::test
