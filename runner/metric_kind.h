// What kind of number a metric's name stands for.
#pragma once

#include <string>

namespace gptqb {

// Wall time in seconds.
inline bool is_seconds(const std::string& metric) {
  return metric.starts_with("seconds.") || metric.starts_with("busy_seconds.");
}

// A duration: a published one depends on the device, and gets a ratio instead of a verdict.
inline bool is_time(const std::string& metric) {
  return is_seconds(metric) ||
         (metric.starts_with("decode.") && metric.find(".ms_") != std::string::npos);
}

// What a device reached or took: another number in each run.
inline bool is_timed(const std::string& metric) {
  if (metric.starts_with("decode."))
    return metric.find(".bytes_") == std::string::npos && !metric.ends_with("checked_tokens");
  return is_seconds(metric) || metric.starts_with("kernels.");
}

// Depends on the machine, the moment, or what ran before: times, peaks of memory, and estimates.
// All other metrics are the same in every run on one machine and build.
inline bool is_reading(const std::string& metric) {
  return is_timed(metric) || metric.ends_with("_planned") || metric.ends_with("_peak");
}

inline bool higher_is_better(const std::string& metric) {
  for (const char* suffix :
       {"tokens_per_second", "bandwidth_share", "top1_agreement", "gb_per_s", "tflop_per_s",
        "accuracy", "checked_tokens", "right_token_probability_change"})
    if (metric.ends_with(suffix)) return true;
  return false;
}

}  // namespace gptqb
