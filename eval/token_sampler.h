// The next token from logits: the likeliest, or one drawn.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <random>
#include <vector>

namespace gptqb {

struct SamplingOptions {
  double temperature = 0;  // logits are divided by it; 0: the likeliest token, nothing is drawn
  int64_t top_k = 0;       // only the k likeliest tokens; 0: all
  double top_p = 1;        // only the fewest likeliest tokens whose shares add up to this
  uint64_t seed = 0;
};

// Shares [vocab] of a row of logits: softmax of logits / temperature in float64, then 0 for all but
// the top_k likeliest, then 0 for all but the fewest likeliest of those that make up top_p of what
// is left; made to add up to 1. Of equal logits the smaller id comes first. `logits` [vocab] on any
// device in any floating dtype, options.temperature above 0. Throws Error if a logit is NaN or
// infinite.
std::vector<double> sampling_shares(const at::Tensor& logits, const SamplingOptions& options);

class TokenSampler {
 public:
  // Throws Error: a temperature below 0, a top_k below 0, a top_p outside (0, 1].
  explicit TokenSampler(const SamplingOptions& options);

  // The id that follows `logits` [vocab]. Draws walk the ids upwards until their shares reach
  // u = (x >> 11) / 2^53, x the next number of std::mt19937_64(seed), one a token: the same on
  // every machine, whatever the number of threads, for the same logits. Equal logits: the smallest
  // id.
  int64_t next(const at::Tensor& logits);

 private:
  SamplingOptions options_;
  std::mt19937_64 generator_;
};

}  // namespace gptqb
