#include "methods/gptq_fast.h"

#include <algorithm>

#include "methods/carry_products.h"
#include "methods/reversed_cholesky.h"
#include "methods/sweep_dispatch.h"

namespace gptqb {
namespace {

// Everything is kept transposed, [in, rows]: a column of W is a contiguous run, as the kernels want
// it.
class FastSweep {
 public:
  FastSweep(const SweepProblem& problem, OrderedProblem& ordered, const Factor& factor)
      : problem_(problem),
        ordered_(ordered),
        factor_(factor),
        weights_(ordered.weights.t().contiguous()),
        carried_(at::zeros_like(weights_)),
        errors_(at::empty_like(weights_)),
        codes_(at::empty_like(weights_, weights_.options().dtype(at::kByte))),
        scales_(ordered.grids.scale.t().contiguous()),
        zeros_(ordered.grids.zero.t().contiguous()),
        groups_(ordered.group_of_position.to(weights_.device())),
        losses_(at::zeros({weights_.size(1)}, weights_.options().dtype(at::kDouble))),
        products_(factor.triangle, errors_, carried_, problem.method.precision) {}

  void run() {
    const int64_t columns = weights_.size(0);
    if (!ordered_.dynamic)
      solve(0, columns);
    else
      solve_units(0, columns, unit());
    ordered_.grids = {scales_.t(), zeros_.t()};
  }

  at::Tensor codes() const { return codes_.t(); }
  double loss() const { return losses_.sum().item<double>(); }

 private:
  // Columns after which grids are fitted again: fresh grids at every group, stale ones (as the
  // published code takes them) for all groups that start in a block when the block starts.
  int64_t unit() const {
    return problem_.compat.reference_group_grid ? problem_.method.block_size : ordered_.width;
  }

  // Columns [begin, end), begin a multiple of `unit`: halves on unit borders down to single units.
  void solve_units(int64_t begin, int64_t end, int64_t unit) {
    const int64_t units = (end - begin + unit - 1) / unit;
    if (units == 1) {
      fit_grids_starting_in(begin, end);
      solve(begin, end);
      return;
    }
    const int64_t middle = begin + units / 2 * unit;
    solve_units(begin, middle, unit);
    products_.carry(begin, middle, end);
    solve_units(middle, end, unit);
  }

  // Columns [begin, end) with known grids.
  void solve(int64_t begin, int64_t end) {
    const int64_t leaf = sweep_columns(weights_.device());
    if (end - begin <= leaf) {
      sweep_chunk({.weights = weights_,
                   .carried = carried_,
                   .factor = factor_.triangle,
                   .diagonal = factor_.diagonal,
                   .scales = scales_,
                   .zeros = zeros_,
                   .group_of_column = groups_,
                   .codes = codes_,
                   .errors = errors_,
                   .losses = losses_,
                   .max_code = problem_.rule.quant.max_code(),
                   .ternary = problem_.rule.quant.ternary()},
                  begin, end);
      return;
    }
    const int64_t leaves = (end - begin + leaf - 1) / leaf;
    const int64_t middle = begin + leaves / 2 * leaf;
    solve(begin, middle);
    products_.carry(begin, middle, end);
    solve(middle, end);
  }

  // Fits the grids of all groups that start in [begin, end) on the weights the published algorithm
  // would hold when it reaches column `begin`: W + (E N) N_gg^-1 over the columns from `begin` to
  // the end of the last such group.
  void fit_grids_starting_in(int64_t begin, int64_t end) {
    const int64_t columns = weights_.size(0);
    const int64_t width = ordered_.width;
    const int64_t first = (begin + width - 1) / width;
    if (first * width >= end) return;
    const int64_t last = (end - 1) / width;
    const int64_t stop = std::min((last + 1) * width, columns);

    auto carried = carried_.slice(0, begin, std::min(stop, end));
    if (stop > end) {
      // The last group reaches beyond what earlier errors have been carried to.
      const auto beyond = at::mm(factor_.triangle.slice(0, 0, begin).slice(1, end, stop).t(),
                                 errors_.slice(0, 0, begin));
      carried = at::cat({carried, beyond});
    }
    auto current = weights_.slice(0, begin, stop);
    if (begin > 0)
      current = current_weights(current, carried,
                                factor_.triangle.slice(0, begin, stop).slice(1, begin, stop));
    for (int64_t group = first; group <= last; ++group) {
      const int64_t group_end = std::min((group + 1) * width, columns);
      const auto grid =
          fit_grid(current.slice(0, group * width - begin, group_end - begin).t(), problem_.rule);
      scales_.select(0, group).copy_(grid.scale);
      zeros_.select(0, group).copy_(grid.zero);
    }
  }

  const SweepProblem& problem_;
  OrderedProblem& ordered_;
  const Factor& factor_;
  at::Tensor weights_;  // [in, rows]
  at::Tensor
      carried_;        // [in, rows]: E N over all columns solved so far that have been carried here
  at::Tensor errors_;  // [in, rows]
  at::Tensor codes_;   // u8 [in, rows]
  at::Tensor scales_;  // [groups, rows]
  at::Tensor zeros_;   // [groups, rows]
  at::Tensor groups_;  // i32 [in]
  at::Tensor losses_;  // f64 [rows]
  CarryProducts products_;
};

}  // namespace

std::optional<Factor> factorize_fast(PreparedHessian prepared, FactorFailure& failure) {
  const auto lower = reversed_cholesky(prepared, failure);
  if (!lower) return std::nullopt;
  Factor factor;
  factor.triangle = lower->flip({0, 1}).contiguous();  // LAPACK's result lies by column
  factor.diagonal = factor.triangle.diagonal().clone();
  factor.triangle.div_(factor.diagonal.unsqueeze(0));
  factor.prepared = std::move(prepared);
  return factor;
}

SweepResult sweep_fast(const SweepProblem& problem, const Factor& factor) {
  auto ordered = order_problem(problem, factor.prepared);
  FastSweep sweep(problem, ordered, factor);
  sweep.run();
  SweepResult result;
  result.quantized = collect(problem, factor.prepared, ordered, sweep.codes());
  result.loss = sweep.loss();
  return result;
}

}  // namespace gptqb
