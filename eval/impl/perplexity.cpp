// Perplexity by the published protocol (shared/reference/protocol.md section 3): exp of the mean window loss.
#include <cmath>
#include <numeric>

#include "eval/evaluator.h"
#include "eval/window_loss.h"

namespace gptqb {
namespace {

// Standard error of the mean of `values`; empty for fewer than two.
std::optional<double> standard_error(const std::vector<double>& values, double mean) {
  if (values.size() < 2) return std::nullopt;
  double squares = 0;
  for (double value : values) squares += (value - mean) * (value - mean);
  const double n = static_cast<double>(values.size());
  return std::sqrt(squares / (n - 1) / n);
}

class Perplexity final : public Evaluator {
 public:
  std::vector<Metric> evaluate(CausalLm& model, const std::vector<EvaluationInput>& inputs,
                               const EvaluationOptions& options) const override {
    std::vector<Metric> metrics;
    for (const EvaluationInput& input : inputs) {
      Metric metric;
      metric.name = "perplexity." + input.name;
      metric.unit = "1";
      metric.samples = window_losses(
          model, *input.windows,
          {.batch = options.batch, .loss_in_model_dtype = options.loss_in_model_dtype, .progress = options.progress});
      metric.count = static_cast<int64_t>(metric.samples.size());
      const double mean = std::accumulate(metric.samples.begin(), metric.samples.end(), 0.0) /
                          static_cast<double>(metric.count);
      metric.value = std::exp(mean);
      if (std::isfinite(metric.value)) {
        if (auto error = standard_error(metric.samples, mean)) metric.standard_error = metric.value * *error;
      } else {
        metric.reason = std::isfinite(mean)
                            ? "exp overflows: the mean loss is " + std::to_string(mean) + " nats a token"
                            : "the model's logits are not finite";
      }
      metrics.push_back(std::move(metric));
    }
    return metrics;
  }
};

}  // namespace

std::unique_ptr<Evaluator> make_perplexity() { return std::make_unique<Perplexity>(); }

}  // namespace gptqb
