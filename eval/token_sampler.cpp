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
  const at::Tensor row = logits.to(at::kCPU, at::kDouble).contiguous();
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

}  // namespace

std::vector<double> sampling_shares(const at::Tensor& logits, const SamplingOptions& options) {
  std::vector<double> shares = checked_values(logits);
  const double most = *std::max_element(shares.begin(), shares.end());
  for (double& value : shares) value = std::exp((value - most) / options.temperature);
  if (options.top_k > 0 || options.top_p < 1) {
    std::vector<size_t> order(shares.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return shares[a] > shares[b]; });
    size_t kept = order.size();
    if (options.top_k > 0) kept = std::min(kept, static_cast<size_t>(options.top_k));
    if (options.top_p < 1) {
      double all = 0, reached = 0;
      for (size_t i = 0; i < kept; ++i) all += shares[order[i]];
      size_t enough = 0;
      while (enough < kept && reached < options.top_p * all) reached += shares[order[enough++]];
      kept = enough;
    }
    for (size_t i = kept; i < order.size(); ++i) shares[order[i]] = 0;
  }
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
