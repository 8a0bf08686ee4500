// A slow oracle for GPTQ, written from Optimal Brain Surgeon and not from either solver: an
// explicit inverse of the remaining columns' Hessian, shrunk by one column at a time, in extended
// precision and plain loops. No ATen inside.
//
// It can be fed the codes of the solver under test. Its value for a column is then what exact
// arithmetic gives for the same past, so that a code is wrong unless that value lies on a rounding
// boundary (shared/design/solver.md, How to compare two solvers).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace gptqb::test {

using Real = long double;

// One layer in sweep order, row-major. `hessian` is damped and repaired.
struct OracleProblem {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> weights;  // [rows, columns]
  std::vector<double> hessian;  // [columns, columns]
  int64_t max_code = 15;
  bool symmetric = false;
  int64_t width = 0;  // columns per group, in sweep order
  // 0: grids from current weights; else from weights as of the start of blocks of so many columns.
  int64_t stale_block = 0;
};

struct OracleResult {
  std::vector<int> codes;      // [rows, columns]: its own decision at each column
  std::vector<double> values;  // [rows, columns]: t / scale + zero, before rounding
  std::vector<double> reach;  // [rows, columns]: (|w| + sum of |updates|) / scale, for error bounds
  std::vector<double> scales;  // [rows, groups], as fitted here
  std::vector<double> zeros;
  double loss = 0;
};

// What the solver under test decided; grids and codes are then taken from it.
struct Decisions {
  std::vector<int> codes;      // [rows, columns], sweep order
  std::vector<double> scales;  // [rows, groups]
  std::vector<double> zeros;
};

// Not inlined: GCC 12 warns of a bad free in code that it has itself made wrong guesses about.
[[gnu::noinline]] inline std::vector<Real> as_real(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

inline std::vector<Real> gauss_jordan_inverse(const std::vector<double>& matrix, int64_t n) {
  auto a = as_real(matrix);
  for (int64_t k = 0; k < n; ++k) {  // in place; positive definite, so no pivoting
    const Real pivot = 1 / a[k * n + k];
    for (int64_t j = 0; j < n; ++j) a[k * n + j] *= pivot;
    a[k * n + k] = pivot;
    for (int64_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const Real factor = a[i * n + k];
      a[i * n + k] = 0;
      for (int64_t j = 0; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  return a;
}

// min/max grid of current[begin, end), scale rounded to float.
inline std::pair<double, double> oracle_grid(const Real* current, int64_t begin, int64_t end,
                                             const OracleProblem& problem) {
  Real low = 0;
  Real high = 0;
  for (int64_t i = begin; i < end; ++i) {
    low = std::min(low, current[i]);
    high = std::max(high, current[i]);
  }
  if (problem.symmetric) {
    high = std::max(high, -low);
    low = -high;
  }
  if (low == 0 && high == 0) {
    low = -1;
    high = 1;
  }
  const auto scale = static_cast<double>(
      static_cast<float>((static_cast<double>(high) - static_cast<double>(low)) /
                         static_cast<double>(problem.max_code)));
  const double zero = problem.symmetric ? static_cast<double>((problem.max_code + 1) / 2)
                                        : std::nearbyint(static_cast<double>(-low) / scale);
  return {scale, zero};
}

inline OracleResult run_oracle(const OracleProblem& problem, const Decisions* forced = nullptr) {
  const int64_t rows = problem.rows;
  const int64_t n = problem.columns;
  const int64_t groups = (n + problem.width - 1) / problem.width;
  auto inverse = gauss_jordan_inverse(problem.hessian, n);
  auto current = as_real(problem.weights);
  auto snapshot = as_real(problem.weights);
  auto reach = as_real(problem.weights);
  for (auto& value : reach) value = std::abs(value);

  OracleResult result;
  result.codes.resize(static_cast<size_t>(rows * n));
  result.values.resize(result.codes.size());
  result.reach.resize(result.codes.size());
  result.scales.resize(static_cast<size_t>(rows * groups));
  result.zeros.resize(result.scales.size());
  for (int64_t i = 0; i < n; ++i) {
    const int64_t group = i / problem.width;
    if (problem.stale_block > 0 && i % problem.stale_block == 0) snapshot = current;
    const Real pivot = inverse[i * n + i];
    for (int64_t r = 0; r < rows; ++r) {
      Real* row = &current[r * n];
      if (i % problem.width == 0) {
        const Real* source = problem.stale_block > 0 ? &snapshot[r * n] : row;
        const auto [scale, zero] = oracle_grid(source, i, std::min(i + problem.width, n), problem);
        result.scales[r * groups + group] = scale;
        result.zeros[r * groups + group] = zero;
      }
      const auto& scales = forced ? forced->scales : result.scales;
      const auto& zeros = forced ? forced->zeros : result.zeros;
      const Real scale = scales[r * groups + group];
      const Real zero = zeros[r * groups + group];
      const Real value = row[i] / scale;
      const auto own =
          std::clamp<Real>(std::nearbyint(value) + zero, 0, static_cast<Real>(problem.max_code));
      result.values[r * n + i] = static_cast<double>(value + zero);
      result.reach[r * n + i] = static_cast<double>(reach[r * n + i] / scale);
      result.codes[r * n + i] = static_cast<int>(own);
      const Real code = forced ? static_cast<Real>(forced->codes[r * n + i]) : own;
      const Real miss = row[i] - scale * (code - zero);
      result.loss += static_cast<double>(miss * miss / pivot / 2);
      for (int64_t k = i + 1; k < n; ++k) {
        const Real update = miss / pivot * inverse[i * n + k];
        row[k] -= update;
        reach[r * n + k] += std::abs(update);
      }
    }
    // Column i leaves: the inverse of the remaining columns' Hessian.
    for (int64_t a = i + 1; a < n; ++a) {
      const Real factor = inverse[a * n + i] / pivot;
      for (int64_t b = i + 1; b < n; ++b) inverse[a * n + b] -= factor * inverse[i * n + b];
    }
  }
  return result;
}

// How the decisions of a solver compare with exact arithmetic on the same past.
struct Comparison {
  int64_t differ = 0;  // codes that differ from the oracle's
  // In steps: by how much the oracle's value misses the interval of such a code.
  double largest_excess = 0;
  int64_t unexplained = 0;         // of them, beyond the tolerance
  double largest_scale_error = 0;  // relative
  int64_t zeros_differ = 0;
};

// `tolerance` in steps for an element, given its reach (see OracleResult).
template <class Tolerance>
Comparison compare_with_oracle(const OracleProblem& problem, const Decisions& tested,
                               Tolerance tolerance) {
  const auto oracle = run_oracle(problem, &tested);
  Comparison comparison;
  for (size_t i = 0; i < oracle.codes.size(); ++i) {
    if (oracle.codes[i] == tested.codes[i]) continue;
    ++comparison.differ;
    const double excess = std::abs(oracle.values[i] - tested.codes[i]) - 0.5;
    comparison.largest_excess = std::max(comparison.largest_excess, excess);
    if (excess > tolerance(oracle.reach[i])) ++comparison.unexplained;
  }
  for (size_t i = 0; i < oracle.scales.size(); ++i) {
    const double error = std::abs(tested.scales[i] / oracle.scales[i] - 1);
    comparison.largest_scale_error = std::max(comparison.largest_scale_error, error);
    comparison.zeros_differ += tested.zeros[i] != oracle.zeros[i];
  }
  return comparison;
}

}  // namespace gptqb::test
