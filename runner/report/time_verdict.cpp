#include "runner/report/time_verdict.h"

#include <algorithm>
#include <cmath>

#include "common/statistics.h"
#include "runner/report/number_format.h"

namespace gptqb {
namespace {

std::vector<double> medians(const TimedSamples& runs) {
  std::vector<double> result;
  for (const std::vector<double>& run : runs) result.push_back(quantile(run, 0.5));
  return result;
}

std::vector<double> repetitions(const TimedSamples& runs) {
  std::vector<double> result;
  for (const std::vector<double>& run : runs) result.insert(result.end(), run.begin(), run.end());
  return result;
}

bool positive(const std::vector<double>& samples) {
  return std::all_of(samples.begin(), samples.end(),
                     [](double value) { return value > 0 && std::isfinite(value); });
}

std::string counts(size_t before, size_t after, const std::string& what) {
  return std::to_string(before) + " and " + std::to_string(after) + " " + what;
}

}  // namespace

TimeVerdict judge_times(const TimedSamples& before, const TimedSamples& after,
                        const TimeOptions& options) {
  TimeVerdict verdict;
  const std::vector<double> was = medians(before), is = medians(after);
  verdict.before = quantile(was, 0.5);
  verdict.after = quantile(is, 0.5);
  if (was == is) {
    verdict.change = Change::kSame;
    verdict.detail = "equal";
    return verdict;
  }
  const double difference = std::abs(verdict.after - verdict.before);
  if (difference <= options.smallest) {
    verdict.change = Change::kSame;
    verdict.detail = "less apart than " + number_text(options.smallest);
    return verdict;
  }
  if (!positive(was) || !positive(is)) {
    verdict.detail = "no factor: a time is 0 or not finite";
    return verdict;
  }

  RatioEstimate estimate = estimate_ratio(was, is, options.confidence);
  std::string by = counts(was.size(), is.size(), "runs");
  const bool by_runs = estimate.low.has_value();
  if (!by_runs) {
    const std::vector<double> all_before = repetitions(before), all_after = repetitions(after);
    if (positive(all_before) && positive(all_after))
      estimate = estimate_ratio(all_before, all_after, options.confidence);
    by = estimate.low ? counts(all_before.size(), all_after.size(), "repetitions") +
                            " within runs, which do not show how runs differ"
                      : by + ", too few to tell from noise";
  }
  verdict.detail = "x" + significant_text(estimate.ratio, 3);
  if (estimate.low)
    verdict.detail += " [" + significant_text(*estimate.low, 3) + ", " +
                      significant_text(*estimate.high, 3) + "]";
  verdict.detail += " by " + by;
  if (!estimate.low) return verdict;
  const double upper = 1 + options.threshold, lower = 1 / upper;
  if (*estimate.low >= lower && *estimate.high <= upper)
    verdict.change = Change::kSame;
  else if (by_runs && *estimate.low > upper)
    verdict.change = options.higher_is_better ? Change::kFaster : Change::kSlower;
  else if (by_runs && *estimate.high < lower)
    verdict.change = options.higher_is_better ? Change::kSlower : Change::kFaster;
  return verdict;
}

}  // namespace gptqb
