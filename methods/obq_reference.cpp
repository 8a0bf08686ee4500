#include "methods/obq_reference.h"

#include <limits>

namespace gptqb {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// The next weight of a row. `errors` = w - quant(w), `done` bool: quantized already.
int64_t choose(const ObqProblem& problem, const at::Tensor& errors, const at::Tensor& scales,
               const at::Tensor& diagonal, const at::Tensor& done) {
  const auto squares = errors.square();
  if (problem.outlier_first) {
    const auto outlier = squares > scales.square() / 4;
    const auto largest = squares.masked_fill(at::logical_or(done, outlier.logical_not()), -1);
    if (largest.max().item<double>() >= 0) return largest.argmax().item<int64_t>();
  }
  return (squares / diagonal).masked_fill(done, kNever).argmin().item<int64_t>();
}

}  // namespace

ObqResult solve_obq_reference(const ObqProblem& problem) {
  const int64_t rows = problem.weights.size(0);
  const int64_t columns = problem.weights.size(1);
  const auto group = problem.group_of_position.to(problem.weights.device(), at::kLong);
  const auto first_diagonal = problem.inverse.diagonal().clone();
  const double smallest = smallest_obq_pivot(problem.weights.scalar_type());

  ObqResult result;
  result.codes = at::zeros_like(problem.weights, problem.weights.options().dtype(at::kByte));
  result.steps = at::zeros_like(problem.weights, problem.weights.options().dtype(at::kInt));
  for (int64_t row = 0; row < rows; ++row) {
    auto w = problem.weights[row].clone();
    auto A = problem.inverse.clone();
    const auto scales = problem.grids.scale[row].index_select(0, group);
    const auto zeros = problem.grids.zero[row].index_select(0, group);
    auto done = at::zeros({columns}, w.options().dtype(at::kBool));

    for (int64_t step = 0; step < columns; ++step) {
      const auto codes = quantize_values(w, scales, zeros, problem.quant);
      const auto errors = w - dequantize_values(codes, scales, zeros, problem.quant);
      const int64_t p = problem.greedy ? choose(problem, errors, scales, A.diagonal(), done) : step;
      const double pivot = A[p][p].item<double>();
      if (!(pivot > smallest * first_diagonal[p].item<double>())) {
        result.breakdown = ObqResult::Breakdown{row, p};
        return result;
      }
      const double error = errors[p].item<double>();
      result.codes[row][p].copy_(codes[p]);
      result.steps[row][step].fill_(p);
      result.loss += 0.5 * error * error / pivot;

      w = w - A[p] * (errors[p] / A[p][p]);
      A = A - at::outer(A[p], A[p]) / A[p][p];
      // Exactly so, not only up to rounding: p is gone.
      A.select(0, p).zero_();
      A.select(1, p).zero_();
      done[p].fill_(true);
    }
  }
  return result;
}

}  // namespace gptqb
