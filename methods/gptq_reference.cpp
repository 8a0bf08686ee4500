#include "methods/gptq_reference.h"

#include <algorithm>

#include "methods/published_block.h"

namespace gptqb {

std::optional<Factor> factorize_reference(PreparedHessian prepared, FactorFailure& failure) {
  const auto lower = cholesky_lower(prepared.matrix, failure);
  if (!lower) return std::nullopt;
  const auto inverse = at::cholesky_inverse(*lower);
  const auto upper = cholesky_upper(inverse, failure);
  if (!upper) return std::nullopt;

  Factor factor;
  factor.triangle = *upper;
  factor.diagonal = factor.triangle.diagonal().reciprocal();
  prepared.matrix.reset();
  factor.prepared = std::move(prepared);
  return factor;
}

SweepResult sweep_reference(const SweepProblem& problem, const Factor& factor, bool step_by_step) {
  auto ordered = order_problem(problem, factor.prepared);
  const auto& U = factor.triangle;
  auto W = ordered.weights.clone();
  const int64_t rows = W.size(0);
  const int64_t columns = W.size(1);
  const auto& quant = problem.rule.quant;
  const auto* group_of = ordered.group_of_position.const_data_ptr<int32_t>();

  auto codes = at::zeros_like(W);
  auto losses = at::zeros({rows}, W.options().dtype(at::kDouble));

  // Fits the grid of the group that starts in column i. Published code: on weights as of the block
  // start. Fresh: with the errors of this block's columns so far.
  const auto fit_group = [&](int64_t i, int64_t begin, const at::Tensor& errors) {
    const int64_t group_end = std::min(i + ordered.width, columns);
    auto current = W.slice(1, i, group_end);
    if (!problem.compat.reference_group_grid && i > begin)
      current = current -
                at::mm(errors.slice(1, 0, i - begin), U.slice(0, begin, i).slice(1, i, group_end));
    const auto grid = fit_grid(current, problem.rule);
    ordered.grids.scale.select(1, group_of[i]).copy_(grid.scale);
    ordered.grids.zero.select(1, group_of[i]).copy_(grid.zero);
  };
  const auto starts_group = [&](int64_t i) { return ordered.dynamic && i % ordered.width == 0; };

  const bool fused = !step_by_step && can_solve_published_blocks(problem, ordered);
  const auto groups = fused ? ordered.group_of_position.to(W.device()) : at::Tensor();

  for (int64_t begin = 0; begin < columns; begin += problem.method.block_size) {
    const int64_t end = std::min(begin + problem.method.block_size, columns);
    at::Tensor errors;
    if (fused) {
      for (int64_t i = begin; i < end; ++i)
        if (starts_group(i)) fit_group(i, begin, {});
      errors =
          solve_published_block(problem, ordered, U, groups, begin, end - begin, W, codes, losses);
    } else {
      // The block's own copy receives every update; W itself only whole blocks' (paper: lazy batch
      // updates).
      auto block = W.slice(1, begin, end).clone();
      errors = at::zeros_like(block);
      for (int64_t i = begin; i < end; ++i) {
        if (starts_group(i)) fit_group(i, begin, errors);
        const auto scale = ordered.grids.scale.select(1, group_of[i]);
        const auto zero = ordered.grids.zero.select(1, group_of[i]);

        const auto w = block.select(1, i - begin);
        const auto code = quantize_values(w, scale, zero, quant);
        const auto q = dequantize_values(code, scale, zero, quant);
        const auto error = (w - q) / U[i][i];
        codes.select(1, i).copy_(code);
        losses += 0.5 * error.to(at::kDouble).square();

        // The columns not yet quantized make up for the error: first those of the block ...
        block.slice(1, i - begin, end - begin)
            .sub_(error.unsqueeze(1) * U[i].slice(0, i, end).unsqueeze(0));
        errors.select(1, i - begin).copy_(error);
      }
    }
    // ... then, in one product, all others.
    W.slice(1, end, columns).sub_(at::mm(errors, U.slice(0, begin, end).slice(1, end, columns)));
  }

  SweepResult result;
  result.quantized = collect(problem, factor.prepared, ordered, codes);
  result.loss = losses.sum().item<double>();
  return result;
}

}  // namespace gptqb
