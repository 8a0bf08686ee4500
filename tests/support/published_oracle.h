// The published algorithm, step by step in float64 and plain loops: Algorithm 1 of the paper with
// what shared/reference/protocol.md says of grids, groups, dead columns, damping and the grid
// search (sections 5 and 10). Written from those texts and not from either solver; no ATen inside.
//
// Free, it makes its own decisions. Fed the codes and grids of a tested solver, it judges them
// column by column: a code may differ from its own only where its value lies near a rounding
// boundary (shared/design/solver.md, How to compare two solvers). tests/support/oracle.h derives
// the same codes another way, without any Cholesky factor.
#pragma once

#include <ATen/ATen.h>  // c10::Half, for scales that are stored in float16

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

namespace gptqb::test {

// H as Algorithm 1 takes it, in sweep order.
struct PublishedHessian {
  int64_t columns = 0;
  std::vector<int64_t> order;  // input column of each position
  std::vector<bool> dead;      // by input column
  std::vector<double> upper;   // U, row-major: the upper Cholesky factor of H^-1
  double condition = 1;        // (max U_ii / min U_ii)^2
};

// Input columns by falling diagonal, ties from left to right.
inline std::vector<int64_t> falling_diagonal(const std::vector<double>& hessian, int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const auto value = [&](int64_t i) { return hessian[i * n + i] == 0 ? 1 : hessian[i * n + i]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return value(a) > value(b); });
  return order;
}

// Lower Cholesky factor of the n x n matrix `a`, row-major.
inline std::vector<double> lower_cholesky(std::vector<double> a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    double* row_j = &a[j * n];
    for (int64_t k = 0; k < j; ++k) row_j[j] -= row_j[k] * row_j[k];
    row_j[j] = std::sqrt(row_j[j]);
    for (int64_t i = j + 1; i < n; ++i) {
      double* row_i = &a[i * n];
      for (int64_t k = 0; k < j; ++k) row_i[j] -= row_i[k] * row_j[k];
      row_i[j] /= row_j[j];
    }
    for (int64_t k = j + 1; k < n; ++k) row_j[k] = 0;
  }
  return a;
}

// (L L^T)^-1, from the lower factor L.
inline std::vector<double> inverse_from_lower(const std::vector<double>& lower, int64_t n) {
  std::vector<double> inverted(lower.size(), 0);  // L^-1, transposed: row c holds its column c
  for (int64_t c = 0; c < n; ++c) {
    double* column = &inverted[c * n];
    for (int64_t i = c; i < n; ++i) {
      double sum = i == c ? 1 : 0;
      const double* row = &lower[i * n];
      for (int64_t k = c; k < i; ++k) sum -= row[k] * column[k];
      column[i] = sum / row[i];
    }
  }
  std::vector<double> result(lower.size());
  for (int64_t a = 0; a < n; ++a)
    for (int64_t b = 0; b <= a; ++b) {
      double sum = 0;
      const double* left = &inverted[a * n];
      const double* right = &inverted[b * n];
      for (int64_t k = a; k < n; ++k) sum += left[k] * right[k];
      result[a * n + b] = result[b * n + a] = sum;
    }
  return result;
}

// Protocol 5.7 to 5.9: a dead column gets 1 on the diagonal, columns are permuted, a share of the
// mean diagonal is added, and U comes from Cholesky, inverse, Cholesky. `hessian` [n, n] by input
// column, as calibration sums it.
inline PublishedHessian published_hessian(std::vector<double> hessian, std::vector<int64_t> order,
                                          double damping) {
  const auto n = static_cast<int64_t>(order.size());
  PublishedHessian result;
  result.columns = n;
  result.order = std::move(order);
  double mean = 0;
  for (int64_t i = 0; i < n; ++i) {
    result.dead.push_back(hessian[i * n + i] == 0);
    if (result.dead.back()) hessian[i * n + i] = 1;
    mean += hessian[i * n + i] / static_cast<double>(n);
  }
  std::vector<double> damped(hessian.size());
  for (int64_t a = 0; a < n; ++a)
    for (int64_t b = 0; b < n; ++b)
      damped[a * n + b] =
          hessian[result.order[a] * n + result.order[b]] + (a == b ? damping * mean : 0);
  const auto inverse = inverse_from_lower(lower_cholesky(std::move(damped), n), n);
  const auto lower = lower_cholesky(inverse, n);
  result.upper.resize(lower.size());
  double largest = 0;
  double smallest = std::numeric_limits<double>::infinity();
  for (int64_t a = 0; a < n; ++a) {
    for (int64_t b = 0; b <= a; ++b) result.upper[b * n + a] = lower[a * n + b];
    largest = std::max(largest, lower[a * n + a]);
    smallest = std::min(smallest, lower[a * n + a]);
  }
  result.condition = largest / smallest * (largest / smallest);
  return result;
}

struct PublishedSettings {
  int64_t bits = 4;  // 0: ternary
  int64_t group_size = -1;
  bool symmetric = false;
  bool mse = false;
  bool static_groups = false;
  int64_t stale_block = 0;  // 0: grids from current weights; else from those of the block's start
  bool half_scales = false;
};

// Code q of a uniform grid stands for scale * (q - zero). Ternary: codes 0, 1, 2 stand for `zero`
// (the lower level), 0 and `scale` (the upper one).
struct PublishedGrid {
  double scale = 1;
  double zero = 0;
};

inline double stored_scale(double scale, bool half) {
  return half ? static_cast<double>(
                    static_cast<float>(static_cast<c10::Half>(static_cast<float>(scale))))
              : static_cast<double>(static_cast<float>(scale));
}

inline int published_code(double value, const PublishedGrid& grid, int64_t bits) {
  if (bits == 0) return value > grid.scale / 2 ? 2 : value < grid.zero / 2 ? 0 : 1;
  const double code = std::nearbyint(value / grid.scale) + grid.zero;
  return static_cast<int>(std::clamp(code, 0.0, static_cast<double>((1 << bits) - 1)));
}

inline double published_value(int code, const PublishedGrid& grid, int64_t bits) {
  if (bits == 0) return code == 2 ? grid.scale : code == 0 ? grid.zero : 0;
  return grid.scale * (code - grid.zero);
}

// What the grid search minimizes: sum of |error|^2.4.
inline double search_error(const double* weights, int64_t count, const PublishedGrid& grid,
                           int64_t bits) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double q = published_value(published_code(weights[i], grid, bits), grid, bits);
    sum += std::pow(std::abs(q - weights[i]), 2.4);
  }
  return sum;
}

// Protocol 5.2 to 5.6 and 10: range with 0 in it, symmetric or not, all-zero rows as [-1, 1], and
// 80 shrunk ranges of which the first best wins.
inline PublishedGrid published_grid(const double* weights, int64_t count,
                                    const PublishedSettings& settings) {
  double low = 0;
  double high = 0;
  for (int64_t i = 0; i < count; ++i) {
    low = std::min(low, weights[i]);
    high = std::max(high, weights[i]);
  }
  if (settings.symmetric) {
    high = std::max(high, -low);
    low = -high;
  }
  if (low == 0 && high == 0) {
    low = -1;
    high = 1;
  }
  const bool half = settings.half_scales;
  if (settings.bits == 0) return {stored_scale(high, half), stored_scale(low, half)};
  const auto codes = static_cast<double>(1 << settings.bits);
  const auto grid_of = [&](double share) {
    PublishedGrid grid;
    grid.scale = stored_scale((share * high - share * low) / (codes - 1), half);
    grid.zero = settings.symmetric
                    ? codes / 2
                    : std::clamp(std::nearbyint(-share * low / grid.scale), 0.0, codes - 1);
    return grid;
  };
  if (!settings.mse) return grid_of(1);
  PublishedGrid best;
  double smallest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 80; ++i) {
    const auto grid = grid_of(1 - i / 100.0);
    const double error = search_error(weights, count, grid, settings.bits);
    if (!(error < smallest)) continue;
    smallest = error;
    best = grid;
  }
  return best;
}

// What a tested solver decided. Codes by input column.
struct TestedCodes {
  std::vector<int> codes;            // [rows, columns]
  std::vector<PublishedGrid> grids;  // [rows, groups]
};

struct PublishedResult {
  std::vector<int> codes;            // [rows, columns] by input column
  std::vector<PublishedGrid> grids;  // [rows, groups]
  std::vector<int64_t> group_of_input;
  double loss = 0;
  // Fed a tested solver's decisions:
  int64_t differ = 0;         // codes that are not this oracle's
  int64_t unexplained = 0;    // of them, those farther from a boundary than the tolerance
  double largest_excess = 0;  // how far, in steps
  // Uniform and ternary grids: the largest relative difference of a scale or level. With the
  // search: by how much the error of a tested grid exceeds the smallest, relative.
  double largest_grid_error = 0;
  int64_t zeros_differ = 0;  // not asked with the search
};

// By how much `value` lies beyond the interval that rounds to `code`, in steps of the grid.
inline double excess_of(double value, int code, const PublishedGrid& grid, int64_t bits) {
  if (bits > 0) return std::abs(value / grid.scale + grid.zero - code) - 0.5;
  const double step = std::max(grid.scale, -grid.zero);
  double below = 0;  // how far under the interval
  double above = 0;
  if (code == 2) below = grid.scale / 2 - value;
  if (code == 0) above = value - grid.zero / 2;
  if (code == 1) {
    above = value - grid.scale / 2;
    below = grid.zero / 2 - value;
  }
  return std::max(below, above) / step;
}

inline double grid_error(const PublishedGrid& tested, const PublishedGrid& own,
                         const double* weights, int64_t count, const PublishedSettings& settings) {
  if (settings.mse && settings.bits > 0) {
    const double best = search_error(weights, count, own, settings.bits);
    return best == 0 ? 0 : search_error(weights, count, tested, settings.bits) / best - 1;
  }
  const auto relative = [](double a, double b) {
    return b == 0 ? std::abs(a) : std::abs(a / b - 1);
  };
  const double scale = relative(tested.scale, own.scale);
  return settings.bits > 0 ? scale : std::max(scale, relative(tested.zero, own.zero));
}

// `weights` [rows, columns] as loaded. `tested` null: a free run. `tolerance` in steps, given the
// reach of a value: (|w| + the sizes of all updates to it) / step.
template <class Tolerance>
PublishedResult run_published(const std::vector<double>& weights, int64_t rows,
                              const PublishedHessian& hessian, const PublishedSettings& settings,
                              const TestedCodes* tested, Tolerance tolerance) {
  const int64_t n = hessian.columns;
  const int64_t width = settings.group_size < 0 ? n : settings.group_size;
  const int64_t groups = (n + width - 1) / width;
  const bool fixed = settings.group_size < 0 || settings.static_groups;

  PublishedResult result;
  result.codes.resize(weights.size());
  result.grids.resize(static_cast<size_t>(rows * groups));
  result.group_of_input.resize(static_cast<size_t>(n));
  for (int64_t p = 0; p < n; ++p)
    result.group_of_input[hessian.order[p]] = (fixed ? hessian.order[p] : p) / width;

  const auto judge_grid = [&](int64_t at, const double* source, int64_t count) {
    result.grids[at] = published_grid(source, count, settings);
    if (tested == nullptr) return;
    const auto& theirs = tested->grids[at];
    result.largest_grid_error = std::max(
        result.largest_grid_error, grid_error(theirs, result.grids[at], source, count, settings));
    if (settings.bits > 0 && !settings.mse)
      result.zeros_differ += theirs.zero != result.grids[at].zero;
  };

  for (int64_t r = 0; r < rows; ++r) {
    std::vector<double> natural(weights.begin() + r * n, weights.begin() + (r + 1) * n);
    for (int64_t c = 0; c < n; ++c)
      if (hessian.dead[c]) natural[c] = 0;
    if (fixed)
      for (int64_t g = 0; g < groups; ++g)
        judge_grid(r * groups + g, &natural[g * width], std::min(width, n - g * width));

    std::vector<double> current(natural.size());
    std::vector<double> reach(natural.size());
    for (int64_t p = 0; p < n; ++p) {
      current[p] = natural[hessian.order[p]];
      reach[p] = std::abs(current[p]);
    }
    std::vector<double> at_block_start = current;
    for (int64_t i = 0; i < n; ++i) {
      if (settings.stale_block > 0 && i % settings.stale_block == 0) at_block_start = current;
      if (!fixed && i % width == 0) {
        const auto& source = settings.stale_block > 0 ? at_block_start : current;
        judge_grid(r * groups + i / width, &source[i], std::min(width, n - i));
      }
      const int64_t input = hessian.order[i];
      const int64_t at = r * groups + result.group_of_input[input];
      const auto& grid = tested != nullptr ? tested->grids[at] : result.grids[at];
      const int own = published_code(current[i], grid, settings.bits);
      result.codes[r * n + input] = own;
      const int code = tested != nullptr ? tested->codes[r * n + input] : own;
      if (code != own) {
        const double step = settings.bits > 0 ? grid.scale : std::max(grid.scale, -grid.zero);
        const double excess = excess_of(current[i], code, grid, settings.bits);
        ++result.differ;
        result.largest_excess = std::max(result.largest_excess, excess);
        if (excess > tolerance(reach[i] / step)) ++result.unexplained;
      }
      const double* upper = &hessian.upper[i * n];
      const double error = (current[i] - published_value(code, grid, settings.bits)) / upper[i];
      result.loss += error * error / 2;
      double* updated = current.data();
      double* reached = reach.data();
      for (int64_t k = i + 1; k < n; ++k) {
        const double update = error * upper[k];
        updated[k] -= update;
        reached[k] += std::abs(update);
      }
    }
  }
  return result;
}

}  // namespace gptqb::test
