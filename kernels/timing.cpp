#include "kernels/timing.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace gptqb::kernels {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Copies go on in turn from one repetition to the next, so that a slow call needs no whole round.
class CpuTimer final : public RepetitionTimer {
 public:
  CpuTimer(TimedCall call, const TimingOptions& options)
      : call_(std::move(call)), options_(options) {
    seconds_a_call();
    // The shortest of three: one that was interrupted would make repetitions too short.
    double shortest = seconds_a_call();
    for (int i = 1; i < 3; ++i) shortest = std::min(shortest, seconds_a_call());
    const auto wanted =
        static_cast<int64_t>(std::ceil(options_.seconds / std::max(shortest, 1e-9)));
    calls_ = std::clamp<int64_t>(wanted, 1, options_.max_calls);
    for (int64_t i = 0; i < options_.warmup; ++i) seconds_a_call();
  }

  double run() override {
    const double seconds = seconds_a_call();
    if (options_.during) options_.during();
    return seconds;
  }

  int64_t calls() const override { return calls_; }

 private:
  double seconds_a_call() {
    const double start = now();
    for (int64_t i = 0; i < calls_; ++i) call_(next_++ % options_.copies, nullptr);
    return (now() - start) / static_cast<double>(calls_);
  }

  TimedCall call_;
  TimingOptions options_;
  int64_t calls_ = 1;
  int64_t next_ = 0;
};

}  // namespace

int64_t calls_per_graph(double seconds_a_call, const TimingOptions& options) {
  const int64_t copies = std::max<int64_t>(options.copies, 1);
  const double round = std::max(seconds_a_call, 1e-9) * static_cast<double>(copies);
  const auto rounds = static_cast<int64_t>(std::ceil(options.seconds / round));
  const int64_t allowed = std::max<int64_t>(options.max_calls / copies, 1);
  return copies * std::clamp<int64_t>(rounds, 1, allowed);
}

int64_t copies_beyond_cache(int64_t bytes, int64_t wanted) {
  return std::max<int64_t>((wanted + bytes - 1) / std::max<int64_t>(bytes, 1), 1);
}

int64_t cpu_cache_bytes() {
  int64_t largest = 0;
  for (const int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE})
    largest = std::max<int64_t>(largest, sysconf(level));
  return largest;
}

std::unique_ptr<RepetitionTimer> time_on_cpu(TimedCall call, const TimingOptions& options) {
  return std::make_unique<CpuTimer>(std::move(call), options);
}

}  // namespace gptqb::kernels
