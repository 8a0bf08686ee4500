// How long one call of an operation takes, without what starting it from the host costs.
//
// A repetition is many calls in a row, on a GPU as one CUDA graph between two events. Arguments
// rotate through copies: where these hold more than the caches, each call finds its copy in memory.
// Calls of one repetition may overlap as far as the operation itself allows (programmatic dependent
// launch); copies must not share what a call writes unless it allows that too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace gptqb::kernels {

// Queues one call with the arguments of `copy` on `stream` (a cudaStream_t; on the CPU it is null
// and the call is done at return). It must not synchronize or allocate after its first run.
using TimedCall = std::function<void(int64_t copy, void* stream)>;

struct TimingOptions {
  int64_t copies = 1;        // of the arguments, used in turn
  double seconds = 0.005;    // that a repetition should last at least
  int64_t max_calls = 8192;  // in a repetition; a graph of more nodes takes long to make
  int64_t warmup = 3;        // repetitions before the first that counts
  // Called once in each repetition while the device works on it (on the CPU: right after), for what
  // should be read under load.
  std::function<void()> during = {};
};

class RepetitionTimer {
 public:
  virtual ~RepetitionTimer() = default;
  // Runs one repetition. Seconds a call.
  virtual double run() = 0;
  // In a repetition.
  virtual int64_t calls() const = 0;
};

// How many calls of `seconds_a_call` make a repetition on a GPU: whole rounds through the copies,
// as each graph takes the same ones, at least one round, and more while max_calls allows.
int64_t calls_per_graph(double seconds_a_call, const TimingOptions& options);

// How many copies of `bytes` are `wanted` bytes or more together: twice the last cache for what
// rotates not to be in it.
int64_t copies_beyond_cache(int64_t bytes, int64_t wanted);

// Of the last level in bytes; 0 if unknown.
int64_t cpu_cache_bytes();
int64_t cuda_cache_bytes();  // of the current device's L2

// Both warm up before they return. On the CPU by the steady clock.
std::unique_ptr<RepetitionTimer> time_on_cpu(TimedCall call, const TimingOptions& options);
// On the current device; `stream` is not the default one (that cannot be captured) and outlives the
// timer. Throws Error if a call cannot be captured in a graph.
std::unique_ptr<RepetitionTimer> time_on_cuda(TimedCall call, const TimingOptions& options,
                                              void* stream);

}  // namespace gptqb::kernels
