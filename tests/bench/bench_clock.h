// Timing for the benchmarks: each quantity is measured several times, in turns with what it is
// compared with, and told by its median and its spread.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <vector>

namespace gptqb {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds that all threads of this process have computed so far: what a core can do where others
// want it too, apart from what they leave of caches and memory.
inline double cpu_now() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds of one call.
template <class Work>
double seconds_of(const Work& work) {
  const double start = now();
  work();
  return now() - start;
}
// Seconds of cores that one call takes.
template <class Work>
double cpu_seconds_of(const Work& work) {
  const double start = cpu_now();
  work();
  return cpu_now() - start;
}

struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

// `values`: one or more.
inline Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

}  // namespace gptqb
