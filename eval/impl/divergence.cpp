// How far a model's outputs lie from those of the dense model on the same windows: for each
// predicted token the Kullback-Leibler divergence KL(dense || model) = sum_v p_v (ln p_v - ln q_v)
// over the vocabulary, whether both put the same token first, and how much more probability the
// model gives to the token that follows. Logits are in the model's dtype, softmax and logarithms in
// f32, sums in f64. By the rounding of f32 a divergence is good to about 1e-6 nats; equal logits
// give exactly 0.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/error.h"
#include "common/statistics.h"
#include "eval/evaluator.h"

namespace gptqb {
namespace {

// Logits of a model, logarithms of both models' probabilities, and what is made of them.
constexpr int64_t kLogitCopies = 4;

// Of each predicted token, and of each window.
struct Comparison {
  std::vector<double> token_kl;
  std::vector<double> mean_kl;
  std::vector<double> agreement;
  std::vector<double> probability_change;
};

// One window. `hidden` and `dense_hidden` [seqlen, hidden], `ids` i64 [seqlen], on the models'
// device.
void compare_window(CausalLm& model, const at::Tensor& hidden, CausalLm& dense,
                    const at::Tensor& dense_hidden, const at::Tensor& ids, Comparison& result) {
  const int64_t predicted = ids.size(0) - 1;
  const auto options = ids.options().dtype(at::kDouble);
  const at::Tensor token_kl = at::empty({predicted}, options);
  at::Tensor agreed = at::zeros({}, options);
  at::Tensor change = at::zeros({}, options);
  const int64_t step = head_rows(model, kLogitCopies);
  for (int64_t start = 0; start < predicted; start += step) {
    const int64_t rows = std::min(step, predicted - start);
    at::Tensor logits = dense.logits(dense_hidden.narrow(0, start, rows)).to(at::kFloat);
    const at::Tensor dense_first = logits.argmax(-1);
    const at::Tensor log_p = at::log_softmax(logits, -1);
    logits = model.logits(hidden.narrow(0, start, rows)).to(at::kFloat);
    agreed += logits.argmax(-1).eq(dense_first).sum();
    const at::Tensor log_q = at::log_softmax(logits, -1);
    logits.reset();
    const at::Tensor right = ids.narrow(0, start + 1, rows).unsqueeze(1);
    change += (log_q.gather(1, right).exp() - log_p.gather(1, right).exp()).sum(at::kDouble);
    const at::Tensor terms = (log_p - log_q).mul_(log_p.exp());
    token_kl.narrow(0, start, rows).copy_(terms.sum({-1}, false, at::kDouble));
  }
  const at::Tensor kl = token_kl.cpu();
  const double* values = kl.const_data_ptr<double>();
  result.token_kl.insert(result.token_kl.end(), values, values + predicted);
  const auto count = static_cast<double>(predicted);
  result.mean_kl.push_back(kl.sum().item<double>() / count);
  result.agreement.push_back(agreed.item<double>() / count);
  result.probability_change.push_back(change.item<double>() / count);
}

Comparison compare(CausalLm& model, const TokenWindows& windows, const EvaluationOptions& options) {
  Progress& progress = options.progress ? *options.progress : silent_progress();
  // The dense pass first: with it done, only one model's states fill the device.
  WindowStates dense_states = options.dense->hidden_states(windows, options.batch, progress);
  for (at::Tensor& chunk : dense_states) chunk = chunk.cpu();
  WindowStates states = options.states
                            ? options.states->get(model, windows, options.batch, progress)
                            : final_hidden_states(model, windows, options.batch, progress);
  CausalLm& dense = options.dense->model();
  const at::Tensor ids = window_ids(windows, model.device());
  progress.begin("logits on " + windows.dataset, windows.count);
  Comparison result;
  for (size_t chunk = 0; chunk < states.size(); ++chunk) {
    const at::Tensor hidden = states[chunk].to(model.device());
    const at::Tensor dense_hidden = dense_states[chunk].to(dense.device());
    states[chunk].reset();
    dense_states[chunk].reset();
    for (int64_t i = 0; i < hidden.size(0); ++i) {
      throw_if_interrupted();
      const auto window = static_cast<int64_t>(result.mean_kl.size());
      compare_window(model, hidden[i], dense, dense_hidden[i], ids[window], result);
      progress.advance();
    }
  }
  return result;
}

Metric reading(const std::string& name, const std::string& unit, double value, size_t count) {
  Metric metric;
  metric.name = name;
  metric.unit = unit;
  metric.value = value;
  metric.count = static_cast<int64_t>(count);
  if (!std::isfinite(value)) metric.reason = "the logits of one of the models are not finite";
  return metric;
}

// A mean over windows, with its error and the windows' values for pairing.
Metric mean(const std::string& name, const std::string& unit, std::vector<double> windows) {
  const MeanEstimate estimate = estimate_mean(windows);
  Metric metric = reading(name, unit, estimate.mean, windows.size());
  if (metric.reason.empty()) metric.standard_error = estimate.standard_error;
  metric.samples = std::move(windows);
  return metric;
}

class Divergence final : public Evaluator {
 public:
  std::vector<Metric> evaluate(CausalLm& model, const std::vector<EvaluationInput>& inputs,
                               const EvaluationOptions& options) const override {
    c10::InferenceMode inference;
    if (options.dense == nullptr)
      throw Error("divergence", "expected a dense model to compare with, got none");
    std::vector<Metric> metrics;
    for (const EvaluationInput& input : inputs) {
      Comparison result = compare(model, *input.windows, options);
      const std::string prefix = "divergence." + input.name + ".";
      const size_t tokens = result.token_kl.size();
      // With probability 1 the quantile is the maximum, and a NaN stays one.
      const double largest = quantile(result.token_kl, 1);
      const double p99 = quantile(std::move(result.token_kl), 0.99);
      metrics.push_back(mean(prefix + "mean_kl", "nats/token", std::move(result.mean_kl)));
      metrics.push_back(reading(prefix + "p99_kl", "nats", p99, tokens));
      metrics.push_back(reading(prefix + "max_kl", "nats", largest, tokens));
      metrics.push_back(mean(prefix + "top1_agreement", "1", std::move(result.agreement)));
      metrics.push_back(mean(prefix + "right_token_probability_change", "1",
                             std::move(result.probability_change)));
    }
    return metrics;
  }
};

}  // namespace

std::unique_ptr<Evaluator> make_divergence() { return std::make_unique<Divergence>(); }

}  // namespace gptqb
