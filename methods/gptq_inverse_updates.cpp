#include "methods/gptq_inverse_updates.h"

#include <algorithm>

#include "methods/obq_problem.h"

namespace gptqb {
namespace {

at::Tensor square(const at::Tensor& matrix, int64_t begin, int64_t end) {
  return matrix.slice(0, begin, end).slice(1, begin, end);
}

// (A_QQ)^-1 A[Q, begin:end] for the columns Q = first .. last: what errors of Q, as they were
// before any of Q was quantized, do to others. By an inverse, as the equations have it; not finite
// where A_QQ is singular.
at::Tensor influence(const at::Tensor& inverse, int64_t first, int64_t last, int64_t begin,
                     int64_t end) {
  return at::mm(std::get<0>(at::linalg_inv_ex(square(inverse, first, last))),
                inverse.slice(0, first, last).slice(1, begin, end));
}

}  // namespace

SweepResult sweep_inverse_updates(const SweepProblem& problem, const Factor& factor) {
  auto ordered = order_problem(problem, factor.prepared);
  auto A = factor.triangle.clone();
  auto W = ordered.weights.clone();
  const int64_t rows = W.size(0);
  const int64_t columns = W.size(1);
  const auto& quant = problem.rule.quant;
  const auto* group_of = ordered.group_of_position.const_data_ptr<int32_t>();
  const auto least = A.diagonal() * smallest_obq_pivot(A.scalar_type());

  SweepResult result;
  result.pivots = at::zeros({columns}, A.options().dtype(at::kDouble));
  auto codes = at::zeros_like(W);
  auto losses = at::zeros({rows}, W.options().dtype(at::kDouble));
  for (int64_t begin = 0; begin < columns; begin += problem.method.block_size) {
    const int64_t end = std::min(begin + problem.method.block_size, columns);
    const auto start = W.slice(1, begin, end);  // stays as it is while the block is solved
    auto block = start.clone();
    auto values = at::zeros_like(block);
    auto local = square(A, begin, end).clone();

    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i - begin;
      const int64_t group = group_of[i];
      if (ordered.dynamic && i % ordered.width == 0) {
        // Published code: weights as of the block start. Fresh: with this block's errors so far.
        const int64_t group_end = std::min(i + ordered.width, columns);
        auto current = W.slice(1, i, group_end);
        if (!problem.compat.reference_group_grid && at > 0)
          current = current - at::mm(start.slice(1, 0, at) - values.slice(1, 0, at),
                                     influence(A, begin, i, i, group_end));
        const auto grid = fit_grid(current, problem.rule);
        ordered.grids.scale.select(1, group).copy_(grid.scale);
        ordered.grids.zero.select(1, group).copy_(grid.zero);
      }
      const auto scale = ordered.grids.scale.select(1, group);
      const auto zero = ordered.grids.zero.select(1, group);

      const auto pivot = local[at][at];
      result.pivots[i].copy_(pivot);
      if (!(pivot > least[i]).item<bool>()) {
        result.lost_pivot = i;
        return result;
      }
      const auto w = block.select(1, at);
      const auto code = quantize_values(w, scale, zero, quant);
      const auto q = dequantize_values(code, scale, zero, quant);
      const auto error = w - q;
      codes.select(1, i).copy_(code);
      values.select(1, at).copy_(q);
      losses += 0.5 * error.to(at::kDouble).square() / pivot.to(at::kDouble);

      block = block - at::outer(error / pivot, local[at]);
      local = local - at::outer(local.select(1, at), local[at]) / pivot;
    }

    const auto k = influence(A, begin, end, end, columns);
    W.slice(1, end, columns).sub_(at::mm(start - values, k));
    const auto below = A.slice(0, end, columns);
    below.slice(1, end, columns).sub_(at::mm(below.slice(1, begin, end), k));
  }
  result.quantized = collect(problem, factor.prepared, ordered, codes);
  result.loss = losses.sum().item<double>();
  return result;
}

}  // namespace gptqb
