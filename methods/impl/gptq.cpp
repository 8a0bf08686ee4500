// The method `gptq`: chooses a solver, decides what happens when H cannot be factored, and records
// how it went. The algorithm itself is in gptq_reference.cpp (as printed) and gptq_fast.cpp.
#include <algorithm>
#include <sstream>

#include "common/error.h"
#include "methods/clock.h"
#include "methods/gptq_fast.h"
#include "methods/gptq_reference.h"
#include "methods/layer_health.h"

namespace gptqb {
namespace {

constexpr double kLargestDamping = 1.0;

std::string number_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// Input column of a sweep position.
int64_t input_column(const at::Tensor& order, int64_t position) {
  return order.defined() ? order[position].item<int64_t>() : position;
}

// Factors H with the configured damping, and with more of it as long as the policy says so.
FactorOutcome factor_with_policy(const at::Tensor& h, const MethodConfig& method) {
  FactorOutcome outcome;
  outcome.damping = method.damping;
  for (;;) {
    ++outcome.tries;
    auto prepared = prepare_hessian(h, outcome.damping, method.act_order, method.compute);
    const auto order = prepared.order;
    FactorFailure failure;
    auto factor = method.solver == SolverKind::kReference
                      ? factorize_reference(std::move(prepared), failure)
                      : factorize_fast(std::move(prepared), failure);
    if (factor) {
      outcome.condition = condition_estimate(*factor);
      outcome.factor = std::make_shared<const Factor>(std::move(*factor));
      return outcome;
    }
    outcome.failure = "the factorization fails at input column " +
                      std::to_string(input_column(order, failure.column)) + " with damping " +
                      number_text(outcome.damping);
    if (method.on_failure != OnFailure::kRaiseDamping || outcome.damping >= kLargestDamping)
      return outcome;
    outcome.damping = std::min(std::max(10 * outcome.damping, 0.01), kLargestDamping);
  }
}

class Gptq : public Quantizer {
 public:
  bool needs_stats() const override { return true; }

  LayerResult quantize(const LinearProblem& problem) const override {
    if (problem.stats == nullptr)
      throw Error(problem.layer, "expected calibration statistics, got none");
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
    const auto key = FactorCache::key(problem.method);
    if (problem.factors != nullptr)
      if (const auto* known = problem.factors->find(key)) return *known;
    const auto h = problem.stats->hessian();
    check_calibration(*problem.stats, h, problem.layer);
    auto outcome = factor_with_policy(h, problem.method);
    if (problem.factors != nullptr) problem.factors->store(key, outcome);
    return outcome;
  }

  static LayerResult solve(const LinearProblem& problem, const at::Tensor& weights,
                           const FactorOutcome& outcome, LayerHealth health) {
    if (!outcome.factor) {
      if (problem.method.on_failure == OnFailure::kRtn)
        return fall_back_to_rtn(problem, health, outcome.failure);
      throw Error(
          problem.layer,
          "expected a positive definite Hessian, but " + outcome.failure + " (" +
              std::to_string(outcome.tries) +
              " tried). Use more or longer calibration windows, raise method.damping, or set "
              "method.on_failure: rtn");
    }
    const auto& factor = *outcome.factor;
    health.condition = outcome.condition;
    health.dead_columns = factor.prepared.dead_columns;
    if (health.dead_columns == weights.size(1))
      return fall_back_to_rtn(problem, health, "every input of this layer was 0 in calibration");

    const SweepProblem sweep{.layer = problem.layer,
                             .weights = weights,
                             .rule = {problem.quant, problem.compat.reference_one_sided},
                             .method = problem.method,
                             .compat = problem.compat};
    auto solved = problem.method.solver == SolverKind::kReference ? sweep_reference(sweep, factor)
                                                                  : sweep_fast(sweep, factor);
    LayerResult result{std::move(solved.quantized), std::move(health)};
    result.health.loss = solved.loss;
    record_errors(problem, result.quantized, result.health);
    return result;
  }
};

}  // namespace

std::unique_ptr<Quantizer> make_gptq() { return std::make_unique<Gptq>(); }

}  // namespace gptqb
