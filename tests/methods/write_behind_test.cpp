// Finished blocks are written in the background: in order, one at a time, and never unnoticed.
#include "methods/write_behind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "common/error.h"

namespace gptqb {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

// Takes its time, and refuses one block.
class SlowStore : public ResumeStore {
 public:
  std::optional<FinishedBlock> load(int64_t) override { return std::nullopt; }
  void save(int64_t block, const FinishedBlock& finished) override {
    EXPECT_EQ(writing.exchange(true), false) << "two blocks at once";
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    thread = std::this_thread::get_id();
    writing = false;
    if (block == refused) throw Error("block", "expected room on the disk, got none");
    hashes.push_back(finished.output_hash);
    ++done;
  }
  std::vector<uint64_t> hashes;
  std::thread::id thread;
  std::atomic<bool> writing = false;
  std::atomic<int> done = 0;
  int64_t refused = -1;
};

FinishedBlock block_of(uint64_t hash) {
  FinishedBlock block;
  block.output_hash = hash;
  return block;
}

TEST(WriteBehind, WritesBlocksInOrderOneAtATime) {
  SlowStore store;
  WriteBehind writer(store);
  for (int64_t block = 0; block < 4; ++block) writer.save(block, block_of(10 + block));
  writer.finish();
  EXPECT_THAT(store.hashes, ElementsAre(10, 11, 12, 13));
  EXPECT_NE(store.thread, std::this_thread::get_id());
  EXPECT_GE(writer.busy_seconds(), 0.08);
}

TEST(WriteBehind, OnlyWaitingCountsForTheCaller) {
  SlowStore store;
  WriteBehind writer(store);
  writer.save(0, block_of(0));
  while (store.done == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  writer.finish();
  EXPECT_GE(writer.busy_seconds(), 0.02);
  EXPECT_LT(writer.waited_seconds(), 0.02);
  writer.save(1, block_of(1));
  writer.finish();
  EXPECT_GE(writer.waited_seconds(), 0.01);
}

TEST(WriteBehind, AFaultComesUpAtTheNextBlockOrAtTheEnd) {
  const auto fault = ThrowsMessage<Error>(HasSubstr("[block] expected room on the disk, got none"));
  SlowStore store;
  store.refused = 1;
  WriteBehind writer(store);
  writer.save(0, block_of(0));
  writer.save(1, block_of(1));
  EXPECT_THAT([&] { writer.save(2, block_of(2)); }, fault);
  EXPECT_THAT(store.hashes, ElementsAre(0))
      << "nothing is written behind a block that is not there";
  writer.save(1, block_of(1));
  EXPECT_THAT([&] { writer.finish(); }, fault);
  EXPECT_NO_THROW(writer.finish());
}

TEST(WriteBehind, GoingAwayWaitsForTheBlockInFlight) {
  SlowStore store;
  { WriteBehind(store).save(0, block_of(5)); }
  EXPECT_THAT(store.hashes, ElementsAre(5));
}

}  // namespace
}  // namespace gptqb
