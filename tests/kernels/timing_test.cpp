// What a repetition consists of, and what a plain read adds up to.
#include "kernels/timing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "common/error.h"
#include "kernels/device_clocks.h"
#include "kernels/device_info.h"
#include "kernels/read_bandwidth.h"

namespace gptqb::kernels {
namespace {

TEST(Timing, AGraphIsWholeRoundsThroughTheCopies) {
  EXPECT_EQ(calls_per_graph(1e-3, {.copies = 1, .seconds = 5e-3}), 5);
  EXPECT_EQ(calls_per_graph(1e-3, {.copies = 3, .seconds = 5e-3}), 6);
  EXPECT_EQ(calls_per_graph(1, {.copies = 7, .seconds = 5e-3}), 7);
  EXPECT_EQ(calls_per_graph(0, {.copies = 3, .seconds = 1, .max_calls = 100}), 99);
  EXPECT_EQ(calls_per_graph(0, {.copies = 200, .seconds = 1, .max_calls = 100}), 200);
}

// PF-03: what rotates must not fit into a cache.
TEST(Timing, CopiesHoldMoreThanTheCache) {
  for (const int64_t bytes : {int64_t{1000}, int64_t{8'650'752}, int64_t{300'000'000}})
    for (const int64_t wanted : {int64_t{0}, int64_t{50} << 20, int64_t{256} << 20}) {
      const int64_t copies = copies_beyond_cache(bytes, wanted);
      EXPECT_GE(copies * bytes, wanted);
      EXPECT_TRUE(copies == 1 || (copies - 1) * bytes < wanted);
    }
}

TEST(Timing, CallsTakeTheCopiesInTurnAndWarmUpComesFirst) {
  std::vector<int64_t> calls;
  const auto timer = time_on_cpu(
      [&](int64_t copy, void* stream) {
        EXPECT_EQ(stream, nullptr);
        calls.push_back(copy);
      },
      {.copies = 3, .seconds = 0, .warmup = 2});
  EXPECT_EQ(timer->calls(), 1);
  EXPECT_EQ(calls, (std::vector<int64_t>{0, 1, 2, 0, 1, 2}));
  calls.clear();
  EXPECT_GE(timer->run(), 0);
  timer->run();
  EXPECT_EQ(calls, (std::vector<int64_t>{0, 1}));
}

TEST(Timing, WhatIsReadUnderLoadIsReadOnceARepetition) {
  int during = 0;
  const auto timer =
      time_on_cpu([](int64_t, void*) {}, {.seconds = 0, .during = [&] { ++during; }});
  EXPECT_EQ(during, 0);
  timer->run();
  timer->run();
  EXPECT_EQ(during, 2);
}

TEST(Timing, AFaultOfTheOperationIsThrownOn) {
  EXPECT_THROW(time_on_cpu([](int64_t, void*) { throw Error("kernel", "x"); }, {}), Error);
}

TEST(ReadBandwidth, EveryWordIsRead) {
  std::mt19937 random(1);
  for (const int64_t words : {4, 60, 64, 68, 1000, 100'004}) {
    std::vector<uint32_t> data(static_cast<size_t>(words));
    uint32_t expected = 0;
    for (uint32_t& word : data) expected ^= word = static_cast<uint32_t>(random());
    EXPECT_EQ(fold_words_cpu(data.data(), words * 4), expected) << words;
  }
}

TEST(DeviceClocks, ReasonsAreTheBitsOfNvml) {
  EXPECT_TRUE(throttle_reasons(0).empty());
  EXPECT_TRUE(throttle_reasons(0x1 | 0x2).empty()) << "idle, or clocks that the user set";
  EXPECT_THAT(throttle_reasons(0x44),
              ::testing::ElementsAre("power cap", "hardware thermal slowdown"));
}

TEST(DeviceClocks, AreThereOrSaidNotToBe) {
  for (const DeviceClocks& clocks : {cpu_clocks(), cuda_clocks(0)})
    EXPECT_NE(clocks.clock_mhz > 0, !clocks.unavailable.empty()) << clocks.unavailable;
}

}  // namespace
}  // namespace gptqb::kernels
