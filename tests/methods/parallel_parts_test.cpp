// That parts run on several threads at all: ATen's parallel loop is a template that is a plain loop
// in files compiled without OpenMP, and everything still comes out right then.
#include "methods/parallel_parts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace gptqb {
namespace {

TEST(ParallelParts, TwoThreadsAreAtWorkAtOnce) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::atomic<int> arrived = 0;
  std::atomic<bool> met = true;
  parallel_parts(2, 1, 1, [&](int64_t, int64_t) {
    ++arrived;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    if (arrived < 2) met = false;
  });
  at::set_num_threads(before);
  EXPECT_TRUE(met) << "one part ended before the other began: is OpenMP missing from the build?";
}

TEST(ParallelParts, EachPartIsDoneOnceAndAWorkerKeepsItsOwnMemory) {
  const int before = at::get_num_threads();
  at::set_num_threads(2);
  std::vector<std::atomic<int>> done(103);
  std::atomic<int> workers = 0;
  parallel_parts_of(103, 8, 4, [&] {
    ++workers;
    return [&, kept = std::vector<int64_t>()](int64_t begin, int64_t end) mutable {
      EXPECT_LE(end - begin, 8);
      EXPECT_EQ(begin % 4, 0);
      for (const int64_t earlier : kept) EXPECT_LT(earlier, begin);
      kept.push_back(begin);
      for (int64_t i = begin; i < end; ++i) ++done[static_cast<size_t>(i)];
    };
  });
  at::set_num_threads(before);
  for (const auto& count : done) EXPECT_EQ(count, 1);
  EXPECT_GE(workers, 1);
  EXPECT_LE(workers, 2);
}

}  // namespace
}  // namespace gptqb
