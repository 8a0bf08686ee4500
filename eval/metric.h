// One measured number with what is needed to judge it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gptqb {

// `value` may be infinite or NaN; `reason` then says why, and JSON gets null with the reason.
struct Metric {
  std::string name;  // "perplexity.wikitext2"
  double value = 0;
  std::string unit;   // "1" for ratios and perplexity, "s", "bytes", "bits", "nats/token"
  int64_t count = 0;  // samples behind it (windows, repetitions); 0: a plain reading
  std::optional<double> standard_error;
  std::vector<double>
      samples;         // loss per window, time per repetition; empty where no verdict needs them
  std::string reason;  // empty, or why the value is not finite
  std::string note;    // empty, or what a reader must know beside the number
};

}  // namespace gptqb
