// An oracle for OBQ that knows no inverse and no update: at every step it solves the constrained
// least squares problem from scratch, in float64, over the weights that are left.
//
// With S the columns already quantized and e_S their errors, the best weights for the rest F
// minimize e H e^T, which is solved by e_F = -H_FF^-1 H_FS e_S. The oracle is fed the tested
// solver's decisions, so that each is judged on its own (shared/design/solver.md, How to compare
// two solvers).
#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "methods/obq_problem.h"

namespace gptqb::test {

// What `e` H `e`^T / 2 comes to, and the weights it is reached with, if `fixed` columns hold
// `values`.
struct Resolved {
  at::Tensor weights;  // f64 [in]
  double loss = 0;
};

inline Resolved resolve_row(const at::Tensor& original, const at::Tensor& hessian,
                            const std::vector<int64_t>& fixed, const std::vector<double>& values) {
  const int64_t n = original.size(0);
  std::vector<int64_t> left;
  for (int64_t i = 0; i < n; ++i)
    if (std::find(fixed.begin(), fixed.end(), i) == fixed.end()) left.push_back(i);
  auto errors = at::zeros({n}, at::kDouble);
  for (size_t i = 0; i < fixed.size(); ++i)
    errors[fixed[i]].fill_(original[fixed[i]].item<double>() - values[i]);
  if (!left.empty() && !fixed.empty()) {
    const auto f = at::tensor(left, at::kLong);
    const auto s = at::tensor(fixed, at::kLong);
    const auto rows = hessian.index_select(0, f);
    const auto pull = at::mv(rows.index_select(1, s), errors.index_select(0, s));
    errors.index_copy_(0, f, -at::linalg_solve(rows.index_select(1, f), pull));
  }
  return {original - errors, 0.5 * at::dot(errors, at::mv(hessian, errors)).item<double>()};
}

// Judges every step of `result`: the first thing that is wrong, or "". `hessian` f64 [in, in],
// damped, in sweep order; `tolerance` relative to the loss, and in steps for codes.
inline std::string check_obq(const ObqProblem& problem, const at::Tensor& hessian,
                             const ObqResult& result, double tolerance) {
  const auto weights = problem.weights.to(at::kDouble);
  const int64_t n = weights.size(1);
  double total = 0;
  for (int64_t r = 0; r < weights.size(0); ++r) {
    std::vector<int64_t> fixed;
    std::vector<double> values;
    double before = 0;
    for (int64_t step = 0; step < n; ++step) {
      const auto place = [&] {
        return "row " + std::to_string(r) + " step " + std::to_string(step);
      };
      const auto current = resolve_row(weights[r], hessian, fixed, values).weights;
      const auto chosen = result.steps[r][step].item<int64_t>();
      if (std::find(fixed.begin(), fixed.end(), chosen) != fixed.end())
        return place() + ": column " + std::to_string(chosen) + " again";

      double smallest = std::numeric_limits<double>::infinity();
      double largest_outlier = -1;
      double own = 0;
      double own_error = 0;
      double chosen_value = 0;
      for (int64_t p = 0; p < n; ++p) {
        if (std::find(fixed.begin(), fixed.end(), p) != fixed.end()) continue;
        const auto group = problem.group_of_position[p].item<int64_t>();
        const double scale = problem.grids.scale[r][group].item<double>();
        const double zero = problem.grids.zero[r][group].item<double>();
        const double value = current[p].item<double>();
        double code = std::nearbyint(value / scale) + zero;
        code = std::clamp(code, 0.0, static_cast<double>(problem.quant.max_code()));
        if (p == chosen) {
          const double taken = result.codes[r][p].item<double>();
          const double position =
              std::clamp(value / scale + zero, 0.0, static_cast<double>(problem.quant.max_code()));
          if (std::abs(position - taken) > 0.5 + tolerance)
            return place() + ": code " + std::to_string(taken) + " for " + std::to_string(position);
          code = taken;
        }
        const double q = scale * (code - zero);
        auto with = fixed;
        auto with_values = values;
        with.push_back(p);
        with_values.push_back(q);
        const double rise = resolve_row(weights[r], hessian, with, with_values).loss - before;
        smallest = std::min(smallest, rise);
        const double error = std::abs(value - q);
        if (error > scale / 2 * (1 + tolerance)) largest_outlier = std::max(largest_outlier, error);
        if (p != chosen) continue;
        own = rise;
        own_error = error;
        chosen_value = q;
      }
      const double slack = tolerance * (1 + before + std::abs(own));
      if (problem.greedy && problem.outlier_first && largest_outlier >= 0) {
        if (own_error < largest_outlier * (1 - tolerance))
          return place() + ": an outlier of error " + std::to_string(largest_outlier) +
                 " waits, one of " + std::to_string(own_error) + " was taken";
      } else if (problem.greedy && own > smallest + slack) {
        return place() + ": rise " + std::to_string(own) + ", the best is " +
               std::to_string(smallest);
      }
      if (!problem.greedy && chosen != step) return place() + ": out of order";
      fixed.push_back(chosen);
      values.push_back(chosen_value);
      before += own;
    }
    total += before;
  }
  if (std::abs(result.loss - total) > tolerance * (1 + total))
    return "loss " + std::to_string(result.loss) + ", from re-solving " + std::to_string(total);
  return "";
}

}  // namespace gptqb::test
