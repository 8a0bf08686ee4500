// Wall clocks that wait for the device before they are read.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <map>
#include <string>

#include "methods/sweep_dispatch.h"

namespace gptqb {

// What a cell's time goes into: bringing weights and tokens in; running blocks; sums for H; its
// factor; codes; files and copies for them; evaluation; and all that is none of these.
inline constexpr const char* kPhases[] = {"read",  "forward", "hessian",    "factor",
                                          "solve", "write",   "evaluation", "idle"};

// Seconds since it was made.
class Stopwatch {
 public:
  explicit Stopwatch(at::Device device) : device_(device) {
    synchronize(device_);
    start_ = std::chrono::steady_clock::now();
  }
  double seconds() const {
    synchronize(device_);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  at::Device device_;
  std::chrono::steady_clock::time_point start_;
};

// What `action` takes on `device`.
template <class Action>
double seconds_of(at::Device device, const Action& action) {
  const Stopwatch watch(device);
  action();
  return watch.seconds();
}

// Exclusive time by phase: at each moment exactly one phase runs, so that the phases add up to the
// whole.
class PhaseClock {
 public:
  PhaseClock(at::Device device, const std::string& first) : watch_(device), current_(first) {}

  // Ends the running phase and starts `phase`.
  void enter(const std::string& phase) {
    const double now = total();
    seconds_[current_] += now - since_;
    since_ = now;
    current_ = phase;
  }
  // Moves `seconds` of what was booked on `from` to `to`.
  void move(const std::string& from, const std::string& to, double seconds) {
    seconds_[from] -= seconds;
    seconds_[to] += seconds;
  }
  // All time booked so far, that of the running phase left out.
  const std::map<std::string, double>& seconds() const { return seconds_; }
  double total() const { return watch_.seconds() - left_out_; }
  // Runs `action`, whose time is no phase's and no part of the whole: waiting for other cells.
  template <class Action>
  auto leave_out(const Action& action) {
    const double before = watch_.seconds();
    auto result = action();
    left_out_ += watch_.seconds() - before;
    return result;
  }

 private:
  Stopwatch watch_;
  double left_out_ = 0;
  double since_ = 0;
  std::string current_;
  std::map<std::string, double> seconds_;
};

}  // namespace gptqb
