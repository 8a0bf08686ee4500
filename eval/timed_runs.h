// Google Benchmark around our own timers: it registers, filters, repeats and makes the statistics;
// each repetition's time is handed to it. No other file knows it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/timing.h"

namespace gptqb {

// One thing to time.
struct TimedRun {
  std::string name;  // unique; parts between slashes
  // Called before the first repetition. Must have checked the operation's result before it returns;
  // an exception is the failure of this run, and it is not timed.
  std::function<std::unique_ptr<kernels::RepetitionTimer>()> prepare;
  // Called after the last one (not if `prepare` failed); an exception is the failure of this run.
  std::function<void()> finish = {};
};

struct TimedResult {
  std::string name;
  std::string failure;  // empty, or why there are no times
  int64_t calls = 0;    // in each repetition
  double median = 0;    // seconds a call, over repetitions
  double p10 = 0;
  double p90 = 0;
  std::vector<double> samples;  // seconds a call of each repetition, in order
};

// The names that `filter` (a regular expression as for --benchmark_filter: found anywhere in the
// name; with a leading '-' those where it is not) selects, in order; empty: all. Throws Error if
// that is none.
std::vector<std::string> filtered_names(const std::vector<std::string>& names,
                                        const std::string& filter);

// Runs all, in order, `repetitions` (2 or more) times each: one after the other, so that an
// operation's repetitions lie together. Results in the order of `runs`. Throws Interrupted on
// Ctrl-C.
std::vector<TimedResult> run_timed(const std::vector<TimedRun>& runs, int64_t repetitions);

}  // namespace gptqb
