// Times on a GPU against the wall clock, and that what should be cold is.
#include <ATen/cuda/Sleep.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "common/error.h"
#include "kernels/device_clocks.h"
#include "kernels/read_bandwidth.h"
#include "kernels/timing.h"
#include "methods/device_stream.h"
#include "tests/support/message.h"

namespace gptqb {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const at::Device kDevice(at::kCUDA, 0);

// PF-04: nothing but the calls lies between the events, and all of them do.
TEST(TimingCuda, EventsAgreeWithTheWallClock) {
  const SideStream stream(kDevice);
  const auto timer = kernels::time_on_cuda([](int64_t, void*) { at::cuda::sleep(2'000'000); },
                                           {.seconds = 0.05}, stream.handle());
  for (int i = 0; i < 3; ++i) {
    const double start = now();
    const double inside = timer->run() * static_cast<double>(timer->calls());
    const double outside = now() - start;
    EXPECT_LE(inside, outside);
    EXPECT_GT(inside, 0.95 * outside);
  }
}

TEST(TimingCuda, AnEmptyCallTakesMicroseconds) {
  const SideStream stream(kDevice);
  const auto timer =
      kernels::time_on_cuda([](int64_t, void*) { at::cuda::sleep(1); }, {}, stream.handle());
  EXPECT_LT(timer->run(), 1e-5);
}

// KN-01: a launch that escapes the capture would run once and be timed as nothing.
TEST(TimingCuda, AnotherStreamThanTheGivenOneIsRefused) {
  const SideStream stream(kDevice);
  const auto sums =
      at::empty({kernels::fold_words_partials()}, at::device(at::kCUDA).dtype(at::kInt));
  EXPECT_THAT(
      test::message_of([&] { kernels::time_on_cuda([](int64_t, void*) {}, {}, stream.handle()); }),
      testing::HasSubstr("runs on another stream"));
  EXPECT_THAT(test::message_of([&] { kernels::time_on_cuda([](int64_t, void*) {}, {}, nullptr); }),
              testing::HasSubstr("expected a stream of its own"));
  // The stream can be used after that.
  EXPECT_GT(
      kernels::time_on_cuda([](int64_t, void*) { at::cuda::sleep(1); }, {}, stream.handle())->run(),
      0);
}

TEST(TimingCuda, ReadingFoldsEveryWord) {
  const SideStream stream(kDevice);
  at::manual_seed(1);
  for (const int64_t words : {4, 1000, 4 * 512 * 8, 4 * 512 * 8 + 4, 20'000'004}) {
    const auto data = at::randint(0, INT32_MAX, {words}, at::kLong).to(at::kInt);
    const auto device = data.cuda();
    const auto partials = at::empty({kernels::fold_words_partials()}, device.options());
    kernels::fold_words_cuda(device.data_ptr(), words * 4,
                             reinterpret_cast<uint32_t*>(partials.data_ptr()), stream.handle());
    const auto folded = partials.cpu();
    EXPECT_EQ(kernels::fold_words_cpu(folded.data_ptr(), folded.numel() * 4),
              kernels::fold_words_cpu(data.data_ptr(), words * 4))
        << words;
  }
}

// PF-03: 8 MB again and again come from the L2; what rotates through 256 MB does not.
TEST(TimingCuda, RotatedReadsAreNoFasterThanMemory) {
  const SideStream stream(kDevice);
  const auto rate = [&](int64_t bytes, int64_t copies) {
    const auto data = at::zeros({copies * bytes / 4}, at::device(at::kCUDA).dtype(at::kInt));
    const auto partials = at::empty({kernels::fold_words_partials()}, data.options());
    const auto timer = kernels::time_on_cuda(
        [&](int64_t copy, void* handle) {
          kernels::fold_words_cuda(static_cast<const char*>(data.data_ptr()) + copy * bytes, bytes,
                                   reinterpret_cast<uint32_t*>(partials.data_ptr()), handle);
        },
        {.copies = copies}, stream.handle());
    double least = timer->run();
    for (int i = 0; i < 10; ++i) least = std::min(least, timer->run());
    return static_cast<double>(bytes) / least;
  };
  const double plain = rate(int64_t{1} << 30, 1);
  for (const int64_t bytes : {int64_t{1} << 20, int64_t{1} << 23, int64_t{1} << 26})
    EXPECT_LT(rate(bytes, kernels::copies_beyond_cache(bytes, 256'000'000)), 1.05 * plain) << bytes;
  EXPECT_GT(rate(int64_t{1} << 24, 1),
            rate(int64_t{1} << 24, kernels::copies_beyond_cache(int64_t{1} << 24, 256'000'000)));
}

TEST(TimingCuda, ClocksAreRead) {
  const kernels::DeviceClocks clocks = kernels::cuda_clocks(0);
  ASSERT_EQ(clocks.unavailable, "");
  EXPECT_GT(clocks.clock_mhz, 100);
  EXPECT_GE(clocks.clock_max_mhz, clocks.clock_mhz);
  EXPECT_GT(clocks.memory_mhz, 100);
}

}  // namespace
}  // namespace gptqb
