#include "methods/factor_policy.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#include "methods/clock.h"
#include "methods/layer_health.h"

namespace gptqb {
namespace {

constexpr double kLargestDamping = 1.0;

FactorOutcome factor_with_policy(const at::Tensor& h, const MethodConfig& method,
                                 const Factorize& factorize) {
  FactorOutcome outcome;
  outcome.damping = method.damping;
  for (;;) {
    ++outcome.tries;
    auto prepared = prepare_hessian(h, outcome.damping, method);
    const auto order = prepared.order;
    FactorFailure failure;
    auto factor = factorize(std::move(prepared), failure);
    if (factor) {
      outcome.condition = condition_estimate(*factor);
      outcome.factor = std::make_shared<const Factor>(std::move(*factor));
      return outcome;
    }
    outcome.failure = "the factorization fails at input column " +
                      std::to_string(input_column(order, failure.column)) + " with damping " +
                      number_text(outcome.damping);
    const auto next = next_damping(method, outcome.damping);
    if (!next) return outcome;
    outcome.damping = *next;
  }
}

}  // namespace

std::optional<double> next_damping(const MethodConfig& method, double used) {
  if (method.on_failure != OnFailure::kRaiseDamping || used >= kLargestDamping) return std::nullopt;
  return std::min(std::max(10 * used, 0.01), kLargestDamping);
}

FactorOutcome factor_hessian(const LinearProblem& problem, FactorKind kind,
                             const Factorize& factorize) {
  const auto key = FactorCache::key(problem.method, kind);
  if (problem.factors != nullptr)
    if (const auto* known = problem.factors->find(key)) return *known;
  const auto h = problem.stats->hessian();
  check_calibration(*problem.stats, h, problem.layer);
  auto outcome = factor_with_policy(h, problem.method, factorize);
  if (problem.factors != nullptr) problem.factors->store(key, outcome);
  return outcome;
}

LayerResult give_up(const LinearProblem& problem, LayerHealth health,
                    const FactorOutcome& outcome) {
  if (problem.method.on_failure == OnFailure::kRtn)
    return fall_back_to_rtn(problem, std::move(health), outcome.failure);
  throw Error(problem.layer,
              "expected a positive definite Hessian, but " + outcome.failure + " (" +
                  std::to_string(outcome.tries) +
                  " tried). Use more or longer calibration windows, raise method.damping, or set "
                  "method.on_failure: rtn");
}

std::optional<LayerResult> try_factor(const LinearProblem& problem,
                                      const std::function<FactorOutcome()>& factor,
                                      FactorOutcome& outcome, LayerHealth& health) {
  const Stopwatch watch(problem.weight.device());
  outcome = factor();
  health.seconds_factor += watch.seconds();
  health.damping = outcome.damping;
  health.damping_tries += outcome.tries;
  outcome.tries = health.damping_tries;
  if (!outcome.factor) return give_up(problem, health, outcome);
  health.condition = outcome.condition;
  health.dead_columns = outcome.factor->prepared.dead_columns;
  if (health.dead_columns == problem.weight.size(1))
    return fall_back_to_rtn(problem, health, "every input of this layer was 0 in calibration");
  return std::nullopt;
}

bool try_more_damping(LinearProblem& problem, FactorOutcome& outcome, const std::string& what,
                      int64_t position) {
  outcome.failure = what + " loses its pivot at input column " +
                    std::to_string(input_column(outcome.factor->prepared.order, position)) +
                    " with damping " + number_text(outcome.damping);
  const auto next = next_damping(problem.method, outcome.damping);
  if (next) problem.method.damping = *next;
  return next.has_value();
}

int64_t input_column(const at::Tensor& order, int64_t position) {
  return order.defined() ? order[position].item<int64_t>() : position;
}

}  // namespace gptqb
