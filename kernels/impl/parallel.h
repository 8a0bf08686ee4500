// Work on the CPU dealt out to threads: OpenMP's, which are ATen's too, so that its number of
// threads counts here and a call from one of several threads stays on that thread.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace gptqb::kernels {

// Calls work(begin, end) for parts of `length` (the last may be shorter) that cover [0, total),
// each on whichever thread is free. `work` must not throw.
template <class Work>
void parallel_parts(int64_t total, int64_t length, const Work& work) {
  const int64_t parts = (total + length - 1) / length;
  const auto threads = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), parts));
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
  for (int64_t part = 0; part < parts; ++part)
    work(part * length, std::min((part + 1) * length, total));
}

// The length that gives each thread `parts` parts of [0, total), where that has so many: few enough
// to read memory in long runs, and so many that a thread held up by something else does fewer.
inline int64_t part_length(int64_t total, int64_t parts) {
  return std::max<int64_t>(total / (omp_get_max_threads() * parts), 1);
}

}  // namespace gptqb::kernels
