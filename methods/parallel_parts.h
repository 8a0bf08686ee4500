// Work on the CPU dealt out to threads in parts that each do whole matrix products.
//
// A product that one thread computes alone runs near the peak of its core; a library's own division
// of a product among threads loses a quarter of that, and every small operation between two
// products leaves the other threads idle. So threads take parts of the rows, and inside a part each
// ATen operation runs on the thread that calls it. This needs OpenMP in the files that use it
// (cmake/Dependencies.cmake): at::parallel_for is a plain loop without.
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/round_up.h"

namespace gptqb {

// Calls work(begin, end) for parts that cover [0, total): each a multiple of `step` long (but for
// the last), none longer than `largest`, in number a multiple of the threads where `total` allows.
// The same parts for the same number of threads, so the same results, but whichever thread is free
// takes the next: a core that something else uses too then does fewer. Each thread that takes part
// calls make_work() once for its `work`, which may keep memory from one part to the next. An
// exception is thrown on.
template <class MakeWork>
void parallel_parts_of(int64_t total, int64_t largest, int64_t step, const MakeWork& make_work) {
  if (total <= 0) return;
  const int64_t threads = at::get_num_threads();
  const int64_t wanted = threads * divide_up(total, threads * largest);
  const int64_t length = divide_up(divide_up(total, wanted), step) * step;
  // Threads do not inherit the caller's mode, and outside it they may not write its tensors.
  const bool inference = c10::InferenceMode::is_enabled();
  const int64_t parts = divide_up(total, length);
  std::atomic<int64_t> next = 0;
  at::parallel_for(0, std::min(threads, parts), 1, [&](int64_t, int64_t) {
    const c10::InferenceMode mode(inference);
    int64_t part = next++;
    if (part >= parts) return;
    auto&& work = make_work();
    for (; part < parts; part = next++) work(part * length, std::min((part + 1) * length, total));
  });
}

// The same with one `work` for all threads.
template <class Work>
void parallel_parts(int64_t total, int64_t largest, int64_t step, const Work& work) {
  parallel_parts_of(total, largest, step, [&]() -> const Work& { return work; });
}

}  // namespace gptqb
