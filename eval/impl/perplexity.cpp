// Perplexity by the published protocol (shared/reference/protocol.md section 3): exp of the mean
// window loss.
#include <cmath>

#include "common/statistics.h"
#include "eval/evaluator.h"
#include "eval/window_loss.h"

namespace gptqb {
namespace {

class Perplexity final : public Evaluator {
 public:
  std::vector<Metric> evaluate(CausalLm& model, const std::vector<EvaluationInput>& inputs,
                               const EvaluationOptions& options) const override {
    std::vector<Metric> metrics;
    for (const EvaluationInput& input : inputs) {
      Metric metric;
      metric.name = "perplexity." + input.name;
      metric.unit = "1";
      metric.samples = window_losses(model, *input.windows,
                                     {.batch = options.batch,
                                      .loss_in_model_dtype = options.loss_in_model_dtype,
                                      .states = options.states,
                                      .progress = options.progress});
      const MeanEstimate loss = estimate_mean(metric.samples);
      metric.count = loss.count;
      metric.value = std::exp(loss.mean);
      if (std::isfinite(metric.value)) {
        if (loss.standard_error)
          metric.standard_error = perplexity_standard_error(metric.value, *loss.standard_error);
      } else {
        metric.reason = std::isfinite(loss.mean) ? "exp overflows: the mean loss is " +
                                                       std::to_string(loss.mean) + " nats a token"
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
