#include "eval/token_sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "common/error.h"
#include "common/text.h"

namespace gptqb {
namespace {

std::vector<double> checked_values(const at::Tensor& logits) {
  const at::Tensor row = logits.to(at::kCPU).to(at::kDouble).contiguous();
  const double* begin = row.const_data_ptr<double>();
  std::vector<double> values(begin, begin + row.numel());
  const auto bad =
      std::find_if(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
  if (bad != values.end())
    throw Error("generation", "expected finite logits, got " + number_text(*bad) + " for id " +
                                  std::to_string(bad - values.begin()) +
                                  ". Activations overflow the model's dtype, or the checkpoint is "
                                  "damaged: try --dtype float32 or bfloat16");
  return values;
}

// Sets all shares but those of the likeliest tokens to 0. A heap gives these one after another, so
// that a large vocabulary is not sorted for a few of them.
void keep_likeliest(std::vector<double>& shares, const SamplingOptions& options) {
  const size_t vocabulary = shares.size();
  const auto less_likely = [&](size_t a, size_t b) {
    return shares[a] != shares[b] ? shares[a] < shares[b] : a > b;
  };
  std::vector<size_t> ids(vocabulary);  // a heap, and behind it, from the end, the likeliest
  std::iota(ids.begin(), ids.end(), size_t{0});
  std::make_heap(ids.begin(), ids.end(), less_likely);
  size_t ranked = 0;
  const auto share_of_rank = [&](size_t rank) {
    for (; ranked <= rank; ++ranked)
      std::pop_heap(ids.begin(), ids.end() - static_cast<int64_t>(ranked), less_likely);
    return shares[ids[vocabulary - 1 - rank]];
  };

  size_t most = vocabulary;
  double all = 0;
  if (options.top_k > 0) {
    most = std::min(most, static_cast<size_t>(options.top_k));
    for (size_t rank = 0; rank < most; ++rank) all += share_of_rank(rank);
  } else {
    all = std::accumulate(shares.begin(), shares.end(), 0.0);
  }
  size_t kept = 0;
  double reached = 0;
  while (kept < most && (options.top_p == 1 || reached < options.top_p * all))
    reached += share_of_rank(kept++);
  for (size_t i = 0; i < vocabulary - kept; ++i) shares[ids[i]] = 0;
}

}  // namespace

std::vector<double> sampling_shares(const at::Tensor& logits, const SamplingOptions& options) {
  std::vector<double> shares = checked_values(logits);
  const double most = *std::max_element(shares.begin(), shares.end());
  for (double& value : shares) value = std::exp((value - most) / options.temperature);
  if (options.top_k > 0 || options.top_p < 1) keep_likeliest(shares, options);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

TokenSampler::TokenSampler(const SamplingOptions& options)
    : options_(options), generator_(options.seed) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    throw Error("temperature", "expected a number from 0 on (0: the likeliest token), got " +
                                   number_text(options.temperature));
  if (options.top_k < 0)
    throw Error("top-k", "expected a whole number from 0 on (0: all tokens), got " +
                             std::to_string(options.top_k));
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw Error("top-p", "expected a number above 0 and at most 1 (1: all tokens), got " +
                             number_text(options.top_p));
}

int64_t TokenSampler::next(const at::Tensor& logits) {
  if (options_.temperature == 0) {
    const std::vector<double> values = checked_values(logits);
    return std::max_element(values.begin(), values.end()) - values.begin();
  }
  const std::vector<double> shares = sampling_shares(logits, options_);
  const double u = static_cast<double>(generator_() >> 11) * 0x1p-53;
  double reached = 0;
  int64_t last = 0;  // where rounding leaves the sum below u: the last id that can be drawn
  for (size_t id = 0; id < shares.size(); ++id) {
    if (shares[id] == 0) continue;
    last = static_cast<int64_t>(id);
    reached += shares[id];
    if (u < reached) break;
  }
  return last;
}

}  // namespace gptqb
