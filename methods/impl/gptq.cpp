// The method `gptq`: chooses a solver, decides what happens when H cannot be factored, and records
// how it went. The algorithm itself is in gptq_reference.cpp (as printed), gptq_fast.cpp, and
// gptq_inverse_updates.cpp (before the paper's third step).
#include "common/error.h"
#include "methods/clock.h"
#include "methods/factor_policy.h"
#include "methods/gptq_fast.h"
#include "methods/gptq_inverse_updates.h"
#include "methods/gptq_reference.h"
#include "methods/layer_health.h"
#include "methods/obq_problem.h"

namespace gptqb {
namespace {

class Gptq : public Quantizer {
 public:
  bool needs_stats() const override { return true; }

  LayerResult quantize(const LinearProblem& problem) const override {
    require_stats(problem);
    if (problem.method.order == ColumnOrder::kGreedy)
      throw Error(
          problem.layer,
          "expected an order of columns that all rows share, got method.order greedy, which "
          "only obq has. Use natural, act, reverse or random:SEED");
    const auto weights = checked_weights(problem, scalar_type(problem.method.compute));
    auto health = start_health(problem, "gptq");
    if (problem.stats->tokens() == 0)
      return fall_back_to_rtn(problem, health, "no calibration token reached this layer");

    auto tried = problem;
    for (;;) {
      FactorOutcome outcome;
      if (auto ended = try_factor(
              tried, [&] { return factor_of(tried); }, outcome, health))
        return *std::move(ended);

      const Stopwatch solve_watch(weights.device());
      auto solved = solve(tried, weights, *outcome.factor);
      health.seconds_solve += solve_watch.seconds();
      if (!solved.lost_pivot) {
        LayerResult result{std::move(solved.quantized), std::move(health)};
        result.health.loss = solved.loss;
        result.health.seconds_errors = seconds_of(
            weights.device(), [&] { record_errors(problem, result.replacement, result.health); });
        return result;
      }
      if (!try_more_damping(tried, outcome, "the updated inverse", *solved.lost_pivot))
        return give_up(problem, std::move(health), outcome);
    }
  }

 private:
  static FactorOutcome factor_of(const LinearProblem& problem) {
    switch (problem.method.solver) {
      case SolverKind::kReference:
        return factor_hessian(problem, FactorKind::kTriangle, factorize_reference);
      case SolverKind::kInverseUpdates:
        return factor_hessian(problem, FactorKind::kInverse, factorize_inverse);
      case SolverKind::kFast:
        break;
    }
    return factor_hessian(problem, FactorKind::kTriangle, factorize_fast);
  }

  static SweepResult solve(const LinearProblem& problem, const at::Tensor& weights,
                           const Factor& factor) {
    const SweepProblem sweep{
        .layer = problem.layer,
        .weights = weights,
        .rule = {.quant = problem.quant,
                 .one_sided = problem.compat.reference_one_sided,
                 .step_by_step = problem.method.solver == SolverKind::kReference},
        .method = problem.method,
        .compat = problem.compat};
    switch (problem.method.solver) {
      case SolverKind::kReference:
        return sweep_reference(sweep, factor, problem.method.step_by_step);
      case SolverKind::kInverseUpdates:
        return sweep_inverse_updates(sweep, factor);
      case SolverKind::kFast:
        break;
    }
    return sweep_fast(sweep, factor);
  }
};

}  // namespace

std::unique_ptr<Quantizer> make_gptq() { return std::make_unique<Gptq>(); }

}  // namespace gptqb
