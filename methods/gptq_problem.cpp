#include "methods/gptq_problem.h"

namespace gptqb {

at::Tensor live_weights(const SweepProblem& problem, const PreparedHessian& prepared) {
  if (prepared.dead_columns == 0) return problem.weights;
  return problem.weights.masked_fill(prepared.dead.unsqueeze(0), 0);
}

OrderedProblem order_grids(const SweepProblem& problem, const PreparedHessian& prepared,
                           const at::Tensor& live) {
  const auto& quant = problem.rule.quant;
  const int64_t rows = problem.weights.size(0);
  const int64_t columns = problem.weights.size(1);
  const bool whole_row = quant.group_size < 0;

  OrderedProblem ordered;
  ordered.width = quant.columns_per_group(columns);
  ordered.dynamic = !whole_row && !problem.method.static_groups;

  // A cleared column is a zero, and every range includes 0: clearing first leaves the column out of
  // the grid.
  const bool dead_set_the_grid = whole_row && problem.compat.reference_dead_columns;
  if (ordered.dynamic) {
    const auto shape = std::vector<int64_t>{rows, quant.groups(columns)};
    ordered.grids = {at::empty(shape, live.options()), at::empty(shape, live.options())};
  } else {
    ordered.grids = fit_group_grids(dead_set_the_grid ? problem.weights : live, problem.rule);
  }

  const auto natural = at::arange(columns, at::kLong);
  const bool permuted = prepared.order.defined();
  const auto place = permuted && !ordered.dynamic ? prepared.order.cpu() : natural;
  ordered.group_of_position = place.div(ordered.width, "floor").to(at::kInt);
  return ordered;
}

OrderedProblem order_problem(const SweepProblem& problem, const PreparedHessian& prepared) {
  const auto live = live_weights(problem, prepared);
  auto ordered = order_grids(problem, prepared, live);
  ordered.weights = prepared.order.defined() ? live.index_select(1, prepared.order) : live;
  return ordered;
}

QuantizedLinear collect(const SweepProblem& problem, const PreparedHessian& prepared,
                        const OrderedProblem& ordered, const at::Tensor& codes) {
  auto natural = codes.to(at::kByte);
  if (prepared.order.defined()) natural = natural.index_select(1, at::argsort(prepared.order));
  return collect_natural(problem, prepared, ordered, natural);
}

QuantizedLinear collect_natural(const SweepProblem& problem, const PreparedHessian& prepared,
                                const OrderedProblem& ordered, const at::Tensor& codes) {
  QuantizedLinear result;
  store_grids(ordered.grids, problem.rule.quant, problem.layer, result);
  if (prepared.order.defined() && ordered.dynamic && ordered.grids.scale.size(1) > 1)
    result.group_of_input = at::argsort(prepared.order).div(ordered.width, "floor").to(at::kInt);
  result.codes = codes.contiguous();
  return result;
}

}  // namespace gptqb
