// Means, their uncertainty, and the paired comparison of two models on the same windows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace gptqb {

// A mean with its spread. `standard_error` = deviation / sqrt(count); both are empty for fewer than
// two samples.
struct MeanEstimate {
  int64_t count = 0;
  double mean = 0;                  // NaN for no samples
  std::optional<double> deviation;  // of the samples, with count - 1
  std::optional<double> standard_error;
};
MeanEstimate estimate_mean(const std::vector<double>& samples);

// The value below which lies the share `probability` (0 .. 1) of `values`, linear between the two
// nearest (the default of numpy.quantile). NaN for no values, and if one of them is NaN.
double quantile(std::vector<double> values, double probability);

// Standard error of exp(mean loss) to first order: perplexity x standard error of the mean loss.
double perplexity_standard_error(double perplexity, double standard_error_of_mean_loss);

// Student's t: the value below which lies `probability` (0 < p < 1) with `degrees` >= 1 of freedom;
// found by inverting the incomplete beta function, good to about 1e-10. Throws Error outside these
// bounds.
double student_t_quantile(double probability, double degrees);

// Mean of a[i] - b[i] over windows both models saw, with the 95 % interval mean +- half_width.
struct PairedDifference {
  int64_t count = 0;
  double mean = 0;
  std::optional<double> half_width;  // empty for a single window: no interval can be given

  // The interval holds 0: the data cannot tell the two apart.
  bool tie() const { return half_width && mean <= *half_width && mean >= -*half_width; }
};

// Empty if the vectors differ in length, are empty, or hold a value that is not finite. A shared
// difficulty of windows cancels, so this interval is much narrower than one from two separate
// means.
std::optional<PairedDifference> paired_difference(const std::vector<double>& a,
                                                  const std::vector<double>& b);

// How much longer `after` takes than `before`: the factor between two sets of positive samples of
// which nothing else is assumed, with an interval that holds it with probability `confidence`.
struct RatioEstimate {
  double ratio = 1;           // of the medians, by Hodges and Lehmann
  std::optional<double> low;  // both are empty: too few samples for this confidence
  std::optional<double> high;
};

// The estimate of Hodges and Lehmann (1963): the median of after[j] / before[i] over all pairs. Its
// interval runs between those ordered ratios at which the rank test of Mann and Whitney (1947)
// stops rejecting: exact up to 50 x 50 samples, by the normal approximation above. 99 % needs 5
// samples a side, 95 % needs 4. Throws Error: no samples, or one that is not positive and finite.
RatioEstimate estimate_ratio(const std::vector<double>& before, const std::vector<double>& after,
                             double confidence);

// The largest u with P(U <= u) <= `tail` for the rank sum U of `a` and `b` samples of one
// distribution; -1: there is none.
int64_t rank_sum_critical(int64_t a, int64_t b, double tail);

}  // namespace gptqb
