// The method `obq`: fixes grids and order, decides what happens when H or a row's inverse fails,
// and records how it went. The algorithm itself is in obq_reference.cpp (as printed) and
// obq_fast.cpp.
#include "common/error.h"
#include "methods/clock.h"
#include "methods/factor_policy.h"
#include "methods/gptq_problem.h"
#include "methods/layer_health.h"
#include "methods/obq_fast.h"
#include "methods/obq_reference.h"

namespace gptqb {
namespace {

// Bytes that the inverses of the rows in flight may take, n^2 numbers each.
constexpr int64_t kBudget = int64_t{8} << 30;

// The problem as OBQ sees it: all grids are known before the first weight is chosen, and rows that
// choose their own order start from the natural one.
LinearProblem as_obq(const LinearProblem& given) {
  LinearProblem problem = given;
  problem.method.static_groups = true;
  problem.method.order = given.method.order_or(ColumnOrder::kGreedy);
  if (problem.method.order == ColumnOrder::kGreedy) problem.method.order = ColumnOrder::kNatural;
  return problem;
}

class Obq : public Quantizer {
 public:
  bool needs_stats() const override { return true; }

  LayerResult quantize(const LinearProblem& given) const override {
    require_stats(given);
    if (given.method.outlier_first && given.quant.bits == QuantConfig::kTernary)
      throw Error(given.layer,
                  "expected a grid of equal steps for method.outlier_first, got ternary levels");
    const bool greedy = given.method.order_or(ColumnOrder::kGreedy) == ColumnOrder::kGreedy;
    if (given.method.outlier_first && !greedy)
      throw Error(given.layer,
                  "expected method.outlier_first: false beside an order that all rows share, got "
                  "true. Use order greedy");
    auto problem = as_obq(given);
    const auto weights = checked_weights(problem, scalar_type(problem.method.compute));
    auto health = start_health(problem, "obq");
    if (problem.stats->tokens() == 0)
      return fall_back_to_rtn(problem, health, "no calibration token reached this layer");

    for (;;) {
      FactorOutcome outcome;
      const auto factorize = [&] {
        return factor_hessian(problem, FactorKind::kInverse, factorize_inverse);
      };
      if (auto ended = try_factor(problem, factorize, outcome, health)) return *std::move(ended);
      const Factor& factor = *outcome.factor;

      const Stopwatch solve_watch(weights.device());
      const SweepProblem sweep{.layer = problem.layer,
                               .weights = weights,
                               .rule = {problem.quant, problem.compat.reference_one_sided},
                               .method = problem.method,
                               .compat = problem.compat};
      const auto ordered = order_problem(sweep, factor.prepared);
      const auto solved = solve(sweep, ordered, factor, greedy);
      health.seconds_solve += solve_watch.seconds();
      if (!solved.breakdown) {
        health.loss = solved.loss;
        LayerResult result{collect(sweep, factor.prepared, ordered, solved.codes),
                           std::move(health)};
        result.health.seconds_errors = seconds_of(
            weights.device(), [&] { record_errors(problem, result.replacement, result.health); });
        return result;
      }
      const std::string inverse = "the inverse of row " + std::to_string(solved.breakdown->row);
      if (!try_more_damping(problem, outcome, inverse, solved.breakdown->column))
        return give_up(problem, std::move(health), outcome);
    }
  }

 private:
  static ObqResult solve(const SweepProblem& sweep, const OrderedProblem& ordered,
                         const Factor& factor, bool greedy) {
    const ObqProblem problem{.layer = sweep.layer,
                             .weights = ordered.weights,
                             .inverse = factor.triangle,
                             .grids = ordered.grids,
                             .group_of_position = ordered.group_of_position,
                             .quant = sweep.rule.quant,
                             .greedy = greedy,
                             .outlier_first = sweep.method.outlier_first,
                             .budget = kBudget};
    return sweep.method.solver == SolverKind::kReference ? solve_obq_reference(problem)
                                                         : solve_obq_fast(problem);
  }
};

}  // namespace

std::unique_ptr<Quantizer> make_obq() { return std::make_unique<Obq>(); }

}  // namespace gptqb
