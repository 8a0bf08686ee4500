#include "methods/layer_health.h"

#include "common/error.h"
#include "methods/grid.h"
#include "methods/quadratic_form.h"

namespace gptqb {
namespace {

// Weights as loaded minus weights as the model will hold them, f32.
at::Tensor stored_error(const at::Tensor& weight, const LinearReplacement& replacement) {
  return weight.to(at::kFloat) - replacement.effective_weights(weight.scalar_type()).to(at::kFloat);
}

bool usable(const CalibrationStats* stats) {
  return stats != nullptr && stats->tokens() > 0 && stats->non_finite_inputs() == 0;
}

std::optional<double> ratio(double numerator, double denominator) {
  if (!(denominator > 0)) return std::nullopt;
  return numerator / denominator;
}

}  // namespace

std::optional<double> relative_error(const at::Tensor& weight, const LinearReplacement& replacement,
                                     const CalibrationStats& stats) {
  const auto h = stats.hessian();
  return ratio(rounded_quadratic_form(stored_error(weight, replacement), h),
               rounded_quadratic_form(weight.to(at::kFloat), h));
}

at::Tensor checked_weights(const LinearProblem& problem, at::ScalarType dtype) {
  const auto& weight = problem.weight;
  if (!weight.defined() || weight.dim() != 2 || weight.numel() == 0)
    throw Error(problem.layer, "expected a weight matrix [out, in] that is not empty");
  problem.quant.validate(problem.layer);
  if (problem.stats != nullptr && problem.stats->in_features() != weight.size(1))
    throw Error(problem.layer, "expected statistics of " + std::to_string(weight.size(1)) +
                                   " input columns, got " +
                                   std::to_string(problem.stats->in_features()));
  const auto bad = weight.isfinite().logical_not();
  if (bad.any().item<bool>()) {
    const int64_t first = bad.reshape({-1}).to(at::kInt).argmax().item<int64_t>();
    throw Error(problem.layer,
                "expected finite weights, got " + std::to_string(bad.sum().item<int64_t>()) +
                    " NaN or infinite ones, the first in row " +
                    std::to_string(first / weight.size(1)) + ", column " +
                    std::to_string(first % weight.size(1)) + ". The checkpoint is damaged");
  }
  return weight.to(dtype);
}

void require_stats(const LinearProblem& problem) {
  if (problem.stats == nullptr)
    throw Error(problem.layer, "expected calibration statistics, got none");
}

LayerHealth start_health(const LinearProblem& problem, const std::string& method) {
  LayerHealth health;
  health.layer = problem.layer;
  health.method = method;
  health.bits = problem.quant.bits;
  health.group_size = problem.quant.group_size;
  if (problem.stats != nullptr) {
    health.tokens = problem.stats->tokens();
    health.sequences = problem.stats->sequences();
    health.non_finite_inputs = problem.stats->non_finite_inputs();
    if (health.non_finite_inputs > 0)
      health.note = "inputs that are not finite, the first in calibration window " +
                    std::to_string(problem.stats->first_non_finite_sequence()) + ", input column " +
                    std::to_string(problem.stats->first_non_finite_column());
  }
  return health;
}

void record_errors(const LinearProblem& problem, const LinearReplacement& replacement,
                   LayerHealth& health) {
  const auto weight = problem.weight.to(at::kFloat);
  if (const auto* quantized = std::get_if<QuantizedLinear>(&replacement.form))
    health.clipped = count_clipped(weight, *quantized);
  const auto error = stored_error(problem.weight, replacement);
  if (usable(problem.stats)) {
    const auto h = problem.stats->hessian();
    const double scale = rounded_quadratic_form(weight, h);
    const double own = rounded_quadratic_form(error, h);
    health.relative_error = ratio(own, scale);
    if (!health.loss) {
      // The same damped loss as GPTQ reports, so that the columns of a table can be compared.
      const auto diagonal = h.diagonal();
      const auto dead = diagonal == 0;
      const auto energy = error.square().sum(0, false, at::kDouble);
      const double added =
          problem.method.damping * diagonal.masked_fill(dead, 1).mean().item<double>();
      health.dead_columns = dead.sum().item<int64_t>();
      if (!health.damping) health.damping = problem.method.damping;
      health.loss =
          0.5 * (own + added * energy.sum().item<double>() + (energy * dead).sum().item<double>());
    }
    if (health.method == "rtn") {
      health.relative_error_rtn = health.relative_error;
    } else {
      const GridRule rule{problem.quant, problem.compat.reference_one_sided};
      const auto rtn = round_to_nearest(weight, rule, problem.layer);
      health.relative_error_rtn =
          ratio(rounded_quadratic_form(stored_error(problem.weight, rtn), h), scale);
    }
  }
  if (usable(problem.heldout)) {
    const auto h = problem.heldout->hessian();
    health.relative_error_heldout =
        ratio(rounded_quadratic_form(error, h), rounded_quadratic_form(weight, h));
  }
}

LayerResult fall_back_to_rtn(const LinearProblem& problem, LayerHealth health,
                             const std::string& reason) {
  const GridRule rule{problem.quant, problem.compat.reference_one_sided};
  LayerResult result{round_to_nearest(checked_weights(problem, at::kFloat), rule, problem.layer),
                     std::move(health)};
  result.health.status = "rtn: " + reason;
  record_errors(problem, result.replacement, result.health);
  return result;
}

}  // namespace gptqb
