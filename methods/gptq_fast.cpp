#include "methods/gptq_fast.h"

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "methods/carry_products.h"
#include "methods/column_layout.h"
#include "methods/parallel_parts.h"
#include "methods/reversed_cholesky.h"
#include "methods/sweep_dispatch.h"
#include "methods/unit_inverse.h"

namespace gptqb {
namespace {

// Rows that are swept together on the CPU: whole panels of a product on each instruction set, and
// so few that their weights, errors and carried values stay in a shared cache.
constexpr int64_t kStripRows = 192;
// Rows of a strip come in multiples of the CPU kernel's tile, so that each row is computed by the
// same instructions whatever the number of threads.
constexpr int64_t kTileRows = 64;

// Columns of whose weights group grids are fitted together, before any of them is quantized.
struct GridUnit {
  int64_t begin = 0;  // where the sweep stands when they are fitted
  int64_t end = 0;    // of the columns that are then quantized
  int64_t first = 0;  // the groups that start in between: [first, last)
  int64_t last = 0;
  int64_t stop = 0;  // end of the last of them, which may lie beyond `end`
  // (N^T)^-1 of the columns [begin, stop), and in f32 on the CPU N^-1 in panels; undefined at the
  // start, where no error came before, and if no group starts here.
  at::Tensor inverse;
  PackedFactor packed_inverse;
};

// What all rows share.
struct SweepPlan {
  const SweepProblem& problem;
  const Factor& factor;
  int64_t width = 0;            // columns per group
  at::Tensor groups;            // i32 [in]
  std::vector<GridUnit> units;  // empty: all grids are known
  PackedFactor packed;
};

// Fills in the units' inverses: on a CPU one by one, on all threads; on a GPU those of one size
// together, as it takes as long for one as for all.
void invert_corners(const at::Tensor& triangle, std::vector<GridUnit>& units) {
  std::map<int64_t, std::vector<GridUnit*>> by_size;
  for (auto& unit : units)
    if (unit.begin > 0 && unit.first < unit.last) by_size[unit.stop - unit.begin].push_back(&unit);
  for (const auto& [size, alike] : by_size) {
    const auto invert = [&, size = size, &alike = alike](int64_t first, int64_t last) {
      std::vector<int64_t> begins;
      for (int64_t i = first; i < last; ++i) begins.push_back(alike[static_cast<size_t>(i)]->begin);
      const auto inverses = invert_unit_blocks(triangle, begins, size).unbind();
      for (int64_t i = first; i < last; ++i) {
        auto* unit = alike[static_cast<size_t>(i)];
        unit->inverse = inverses[static_cast<size_t>(i - first)];
        if (triangle.is_cpu()) unit->packed_inverse = pack_factor(unit->inverse.t().contiguous());
      }
    };
    const auto count = static_cast<int64_t>(alike.size());
    if (triangle.is_cpu())
      parallel_parts(count, 1, 1, invert);
    else
      invert(0, count);
  }
}

// Units of one group, or with stale grids (as the published code takes them) of one block.
std::vector<GridUnit> grid_units(const SweepProblem& problem, const OrderedProblem& ordered,
                                 const at::Tensor& triangle) {
  if (!ordered.dynamic) return {};
  const int64_t columns = triangle.size(0);
  const int64_t width = ordered.width;
  const int64_t length = problem.compat.reference_group_grid ? problem.method.block_size : width;
  std::vector<GridUnit> units;
  for (int64_t begin = 0; begin < columns; begin += length) {
    GridUnit unit;
    unit.begin = begin;
    unit.end = std::min(begin + length, columns);
    unit.first = (begin + width - 1) / width;
    unit.last = (unit.end + width - 1) / width;
    unit.stop = std::min(unit.last * width, columns);
    units.push_back(std::move(unit));
  }
  invert_corners(triangle, units);
  return units;
}

// The sweep of some rows, which are independent of all others. Everything is kept transposed, [in,
// rows]: a column of W is a contiguous run, as the kernels want it. One object sweeps strip after
// strip in the same memory: fresh memory costs the system more time than filling it.
class StripSweep {
 public:
  explicit StripSweep(const SweepPlan& plan)
      : plan_(plan),
        factor_(plan.factor),
        weights_(at::empty({factor_.triangle.size(0), 0}, factor_.triangle.options())),
        carried_(at::empty_like(weights_)),
        errors_(at::empty_like(weights_)),
        codes_(at::empty_like(weights_, weights_.options().dtype(at::kByte))),
        products_(factor_.triangle, errors_, carried_, plan.problem.method.precision, plan.packed) {
  }

  // `weights` [rows, in] in natural order; `grids` of the same rows.
  void run(const at::Tensor& weights, const Grid& grids) {
    const int64_t rows = weights.size(0);
    const int64_t columns = weights.size(1);
    for (auto* tensor : {&weights_, &carried_, &errors_, &codes_}) tensor->resize_({columns, rows});
    take_columns(weights, factor_.prepared.order, weights_);
    carried_.zero_();
    scales_ = grids.scale.t().contiguous();
    zeros_ = grids.zero.t().contiguous();
    losses_ = at::zeros({rows}, weights.options().dtype(at::kDouble));
    products_.restart(errors_, carried_);
    if (plan_.units.empty())
      solve(0, columns);
    else
      solve_units(plan_.units);
  }

  // Of the last run.
  const at::Tensor& codes() const { return codes_; }
  const at::Tensor& losses() const { return losses_; }
  Grid grids() const { return {scales_.t(), zeros_.t()}; }

 private:
  // Halves on unit borders down to single units.
  void solve_units(std::span<const GridUnit> units) {
    if (units.size() == 1) {
      fit_grids(units.front());
      solve(units.front().begin, units.front().end);
      return;
    }
    const auto left = units.first(units.size() / 2);
    const auto right = units.subspan(left.size());
    solve_units(left);
    products_.carry(left.front().begin, right.front().begin, right.back().end);
    solve_units(right);
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
                   .group_of_column = plan_.groups,
                   .codes = codes_,
                   .errors = errors_,
                   .losses = losses_,
                   .max_code = plan_.problem.rule.quant.max_code(),
                   .ternary = plan_.problem.rule.quant.ternary()},
                  begin, end);
      return;
    }
    const int64_t leaves = (end - begin + leaf - 1) / leaf;
    const int64_t middle = begin + leaves / 2 * leaf;
    solve(begin, middle);
    products_.carry(begin, middle, end);
    solve(middle, end);
  }

  // Fits the grids of the groups that start in `unit` on the weights the published algorithm would
  // hold when it reaches column unit.begin: W + (E N) N_gg^-1 over the columns from there to the
  // end of the last such group.
  void fit_grids(const GridUnit& unit) {
    if (unit.first == unit.last) return;
    const auto current = weights_before(unit);
    for (int64_t group = unit.first; group < unit.last; ++group) {
      const int64_t begin = group * plan_.width;
      const int64_t end = std::min(begin + plan_.width, unit.stop);
      fit_grid_into(current.slice(0, begin - unit.begin, end - unit.begin).t(), plan_.problem.rule,
                    {scales_.select(0, group), zeros_.select(0, group)});
    }
  }

  // [unit.stop - unit.begin, rows]
  at::Tensor weights_before(const GridUnit& unit) {
    const auto weights = weights_.slice(0, unit.begin, unit.stop);
    if (unit.begin == 0) return weights;
    auto carried = carried_.slice(0, unit.begin, std::min(unit.stop, unit.end));
    if (unit.stop > unit.end) {
      // The last group reaches beyond what earlier errors have been carried to.
      const auto beyond =
          at::mm(factor_.triangle.slice(0, 0, unit.begin).slice(1, unit.end, unit.stop).t(),
                 errors_.slice(0, 0, unit.begin));
      carried = at::cat({carried, beyond});
    }
    if (unit.packed_inverse.panels.defined()) return add_inverse(unit, weights, carried);
    return at::addmm(weights, unit.inverse, carried);
  }

  // weights + (N^T)^-1 carried; the inverse is lower triangular.
  at::Tensor add_inverse(const GridUnit& unit, const at::Tensor& weights,
                         const at::Tensor& carried) {
    auto current = weights.clone();
    const int64_t columns = weights.size(0);
    const int64_t rows = weights.size(1);
    const int64_t step = sweep_columns(weights.device());
    packed_carried_.restart(unit.packed_inverse, columns, rows);
    packed_carried_.pack(carried);
    for (int64_t first = 0; first < columns; first += step) {
      const int64_t last = std::min(first + step, columns);
      packed_carried_.add_product(unit.packed_inverse, 0, last, first, last,
                                  current.mutable_data_ptr<float>() + first * rows);
    }
    return current;
  }

  const SweepPlan& plan_;
  const Factor& factor_;
  at::Tensor weights_;  // [in, rows]
  at::Tensor
      carried_;        // [in, rows]: E N over all columns solved so far that have been carried here
  at::Tensor errors_;  // [in, rows]
  at::Tensor codes_;   // u8 [in, rows]
  at::Tensor scales_;  // [groups, rows]
  at::Tensor zeros_;   // [groups, rows]
  at::Tensor losses_;  // f64 [rows]
  CarryProducts products_;
  PackedRows packed_carried_;
};

}  // namespace

std::optional<Factor> factorize_fast(PreparedHessian prepared, FactorFailure& failure) {
  auto upper = reversed_cholesky(prepared, failure);
  if (!upper) return std::nullopt;
  Factor factor;
  factor.triangle = std::move(*upper);
  factor.diagonal = factor.triangle.diagonal().clone();
  factor.triangle.div_(factor.diagonal.unsqueeze(0));
  factor.prepared = std::move(prepared);
  return factor;
}

SweepResult sweep_fast(const SweepProblem& problem, const Factor& factor) {
  const auto& prepared = factor.prepared;
  const auto weights = live_weights(problem, prepared);
  auto ordered = order_grids(problem, prepared, weights);
  const SweepPlan plan{.problem = problem,
                       .factor = factor,
                       .width = ordered.width,
                       .groups = ordered.group_of_position.to(weights.device()),
                       .units = grid_units(problem, ordered, factor.triangle),
                       .packed = pack_factor(factor.triangle)};
  const int64_t rows = weights.size(0);
  const auto codes = at::empty(weights.sizes(), weights.options().dtype(at::kByte));
  const auto losses = at::empty({rows}, weights.options().dtype(at::kDouble));
  const auto sweep_rows = [&](StripSweep& strip, int64_t begin, int64_t end) {
    strip.run(weights.slice(0, begin, end),
              {ordered.grids.scale.slice(0, begin, end), ordered.grids.zero.slice(0, begin, end)});
    put_columns(strip.codes(), prepared.order, codes.slice(0, begin, end));
    losses.slice(0, begin, end).copy_(strip.losses());
    if (!ordered.dynamic) return;
    ordered.grids.scale.slice(0, begin, end).copy_(strip.grids().scale);
    ordered.grids.zero.slice(0, begin, end).copy_(strip.grids().zero);
  };
  const auto strip_worker = [&] {
    return [&, strip = StripSweep(plan)](int64_t begin, int64_t end) mutable {
      sweep_rows(strip, begin, end);
    };
  };
  if (weights.is_cpu())
    parallel_parts_of(rows, kStripRows, kTileRows, strip_worker);
  else
    strip_worker()(0, rows);

  SweepResult result;
  result.quantized = collect_natural(problem, prepared, ordered, codes);
  result.loss = losses.sum().item<double>();
  return result;
}

}  // namespace gptqb
