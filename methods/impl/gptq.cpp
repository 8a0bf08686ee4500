// The method `gptq`: chooses a solver, decides what happens when H cannot be factored, and records
// how it went. The algorithm itself is in gptq_reference.cpp (as printed) and gptq_fast.cpp.
#include "common/error.h"
#include "methods/clock.h"
#include "methods/factor_policy.h"
#include "methods/gptq_fast.h"
#include "methods/gptq_reference.h"
#include "methods/layer_health.h"

namespace gptqb {
namespace {

class Gptq : public Quantizer {
 public:
  bool needs_stats() const override { return true; }

  LayerResult quantize(const LinearProblem& problem) const override {
    if (problem.stats == nullptr)
      throw Error(problem.layer, "expected calibration statistics, got none");
    if (problem.method.order == ColumnOrder::kGreedy)
      throw Error(
          problem.layer,
          "expected an order of columns that all rows share, got method.order greedy, which "
          "only obq has. Use natural, act, reverse or random:SEED");
    const auto weights = checked_weights(problem, scalar_type(problem.method.compute));
    auto health = start_health(problem, "gptq");
    if (problem.stats->tokens() == 0)
      return fall_back_to_rtn(problem, health, "no calibration token reached this layer");

    const Stopwatch factor_watch(weights.device());
    const auto outcome = factor_of(problem);
    health.seconds_factor = factor_watch.seconds();
    health.damping = outcome.damping;
    health.damping_tries = outcome.tries;

    const Stopwatch solve_watch(weights.device());
    auto result = solve(problem, weights, outcome, health);
    result.health.seconds_solve = solve_watch.seconds();
    return result;
  }

 private:
  static FactorOutcome factor_of(const LinearProblem& problem) {
    const bool reference = problem.method.solver == SolverKind::kReference;
    return factor_hessian(problem, FactorKind::kTriangle,
                          reference ? factorize_reference : factorize_fast);
  }

  static LayerResult solve(const LinearProblem& problem, const at::Tensor& weights,
                           const FactorOutcome& outcome, LayerHealth health) {
    if (!outcome.factor) return give_up(problem, std::move(health), outcome);
    const auto& factor = *outcome.factor;
    health.condition = outcome.condition;
    health.dead_columns = factor.prepared.dead_columns;
    if (health.dead_columns == weights.size(1))
      return fall_back_to_rtn(problem, health, "every input of this layer was 0 in calibration");

    const bool reference = problem.method.solver == SolverKind::kReference;
    const SweepProblem sweep{.layer = problem.layer,
                             .weights = weights,
                             .rule = {.quant = problem.quant,
                                      .one_sided = problem.compat.reference_one_sided,
                                      .step_by_step = reference},
                             .method = problem.method,
                             .compat = problem.compat};
    auto solved = reference ? sweep_reference(sweep, factor) : sweep_fast(sweep, factor);
    LayerResult result{std::move(solved.quantized), std::move(health)};
    result.health.loss = solved.loss;
    record_errors(problem, result.replacement, result.health);
    return result;
  }
};

}  // namespace

std::unique_ptr<Quantizer> make_gptq() { return std::make_unique<Gptq>(); }

}  // namespace gptqb
