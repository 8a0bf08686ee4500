#include "common/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "common/error.h"

namespace gptqb {
namespace {

constexpr double kConfidence = 0.95;

// Continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's
// method.
double beta_fraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300;
  const auto guard = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1;
  double d = 1 / guard(1 - (a + b) * x / (a + 1));
  double result = d;
  for (int m = 1; m <= 1000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / guard(1 + even * d);
    c = guard(1 + even / c);
    result *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / guard(1 + odd * d);
    c = guard(1 + odd / c);
    const double step = d * c;
    result *= step;
    if (std::abs(step - 1) < 1e-15) break;
  }
  return result;
}

// Regularized incomplete beta function I_x(a, b).
double incomplete_beta(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  // The fraction converges fast only on this side; the other by symmetry.
  if (x < (a + 1) / (a + b + 2)) return front * beta_fraction(x, a, b) / a;
  return 1 - front * beta_fraction(1 - x, b, a) / b;
}

// Share of Student's t above `t` >= 0.
double upper_tail(double t, double degrees) {
  return 0.5 * incomplete_beta(degrees / (degrees + t * t), degrees / 2, 0.5);
}

// Pairs up to which the distribution of U is counted out.
constexpr int64_t kExactPairs = 2500;

// Arrangements of a + b samples by their rank sum U = 0 .. a b, by Mann and Whitney's recurrence on
// the largest sample: it is one of the a, and stands above all b, or it is one of the b.
std::vector<double> rank_sum_counts(int64_t a, int64_t b) {
  // counts[j][u]: of i samples beside j.
  std::vector<std::vector<double>> counts(static_cast<size_t>(b + 1), std::vector<double>{1});
  for (int64_t i = 1; i <= a; ++i) {
    for (int64_t j = 1; j <= b; ++j) {
      std::vector<double> sums(static_cast<size_t>(i * j + 1), 0);
      const auto& smaller = counts[static_cast<size_t>(j)];    // i - 1 beside j
      const auto& fewer = counts[static_cast<size_t>(j - 1)];  // i beside j - 1
      for (size_t u = 0; u < smaller.size(); ++u) sums[u + static_cast<size_t>(j)] += smaller[u];
      for (size_t u = 0; u < fewer.size(); ++u) sums[u] += fewer[u];
      counts[static_cast<size_t>(j)] = std::move(sums);
    }
  }
  return counts[static_cast<size_t>(b)];
}

// The standard normal value below which lies `probability`, as that of Student's t with so many
// degrees that they differ by 1e-3.
double normal_quantile(double probability) { return student_t_quantile(probability, 1e4); }

}  // namespace

MeanEstimate estimate_mean(const std::vector<double>& samples) {
  MeanEstimate result;
  result.count = static_cast<int64_t>(samples.size());
  if (samples.empty()) {
    result.mean = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  double sum = 0;
  for (double sample : samples) sum += sample;
  result.mean = sum / static_cast<double>(result.count);
  if (result.count < 2) return result;
  double squares = 0;
  for (double sample : samples) squares += (sample - result.mean) * (sample - result.mean);
  result.deviation = std::sqrt(squares / static_cast<double>(result.count - 1));
  result.standard_error = *result.deviation / std::sqrt(static_cast<double>(result.count));
  return result;
}

double quantile(std::vector<double> values, double probability) {
  if (!(probability >= 0 && probability <= 1))
    throw Error("quantile", "expected 0 <= probability <= 1, got " + std::to_string(probability));
  for (double value : values)
    if (std::isnan(value)) return value;
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double place = probability * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<int64_t>(place);
  std::nth_element(values.begin(), below, values.end());
  const double share = place - std::floor(place);
  if (share == 0) return *below;
  const double above = *std::min_element(below + 1, values.end());
  return *below + share * (above - *below);
}

double perplexity_standard_error(double perplexity, double standard_error_of_mean_loss) {
  return perplexity * standard_error_of_mean_loss;
}

double student_t_quantile(double probability, double degrees) {
  if (!(probability > 0 && probability < 1) || !(degrees >= 1))
    throw Error("student_t_quantile", "expected 0 < probability < 1 and degrees >= 1, got " +
                                          std::to_string(probability) + " and " +
                                          std::to_string(degrees));
  if (probability == 0.5) return 0;
  if (probability < 0.5) return -student_t_quantile(1 - probability, degrees);
  const double tail = 1 - probability;
  double low = 0;
  double high = 1;
  while (upper_tail(high, degrees) > tail && high < 1e300) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-14 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (upper_tail(middle, degrees) > tail ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

std::optional<PairedDifference> paired_difference(const std::vector<double>& a,
                                                  const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) return std::nullopt;
  std::vector<double> differences(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    differences[i] = a[i] - b[i];
    if (!std::isfinite(differences[i])) return std::nullopt;
  }
  const MeanEstimate estimate = estimate_mean(differences);
  PairedDifference result;
  result.count = estimate.count;
  result.mean = estimate.mean;
  if (estimate.standard_error)
    result.half_width =
        student_t_quantile(0.5 + kConfidence / 2, static_cast<double>(estimate.count - 1)) *
        *estimate.standard_error;
  return result;
}

int64_t rank_sum_critical(int64_t a, int64_t b, double tail) {
  const auto pairs = static_cast<double>(a * b);
  if (a * b > kExactPairs) {
    const double deviation = std::sqrt(pairs * static_cast<double>(a + b + 1) / 12);
    return std::max<int64_t>(
        -1, static_cast<int64_t>(std::floor(pairs / 2 - 0.5 + normal_quantile(tail) * deviation)));
  }
  const std::vector<double> counts = rank_sum_counts(a, b);
  double all = 0;
  for (double count : counts) all += count;
  double below = 0;
  for (size_t u = 0; u < counts.size(); ++u) {
    below += counts[u];
    if (below > tail * all) return static_cast<int64_t>(u) - 1;
  }
  return static_cast<int64_t>(counts.size()) - 1;
}

RatioEstimate estimate_ratio(const std::vector<double>& before, const std::vector<double>& after,
                             double confidence) {
  std::vector<double> ratios;
  for (double was : before)
    for (double is : after) {
      if (!(was > 0 && is > 0) || !std::isfinite(was) || !std::isfinite(is))
        throw Error("estimate_ratio", "expected positive samples, got " + std::to_string(was) +
                                          " and " + std::to_string(is));
      ratios.push_back(is / was);
    }
  if (ratios.empty()) throw Error("estimate_ratio", "expected samples on both sides, got none");
  std::sort(ratios.begin(), ratios.end());
  RatioEstimate result;
  const size_t half = ratios.size() / 2;
  // Of two in the middle the geometric mean, so that exchanging the sides gives the inverse.
  result.ratio = ratios.size() % 2 == 1 ? ratios[half] : std::sqrt(ratios[half - 1] * ratios[half]);
  const int64_t critical =
      rank_sum_critical(static_cast<int64_t>(before.size()), static_cast<int64_t>(after.size()),
                        (1 - confidence) / 2);
  if (critical < 0) return result;
  result.low = ratios[static_cast<size_t>(critical)];
  result.high = ratios[ratios.size() - 1 - static_cast<size_t>(critical)];
  return result;
}

}  // namespace gptqb
