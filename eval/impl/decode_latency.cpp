// How long a model takes for each token that it writes (eval/decode_latency.h), for each number of
// sequences at once. Windows give the ids: sequence i of a batch is window i, from the first on
// again where there are fewer.
#include "eval/decode_latency.h"

#include <ATen/ATen.h>

#include "common/error.h"
#include "common/text.h"
#include "eval/evaluator.h"
#include "eval/plain_read.h"

namespace gptqb {
namespace {

// [batch, task.given()] of windows that are at least as long.
at::Tensor ids_of(const TokenWindows& windows, int64_t batch, int64_t given) {
  if (windows.count < 1 || windows.seqlen < given)
    throw Error("decode latency", "expected windows of at least " + std::to_string(given) +
                                      " tokens, got " + std::to_string(windows.count) + " of " +
                                      std::to_string(windows.seqlen));
  const at::Tensor ids = at::empty({batch, given}, at::kLong);
  auto* to = ids.mutable_data_ptr<int64_t>();
  for (int64_t row = 0; row < batch; ++row) {
    const int32_t* from = windows.window(row % windows.count);
    to = std::copy(from, from + given, to);
  }
  return ids;
}

std::string check_text(const DecodeCheck& check) {
  if (check.steps == 0) return "not checked: " + check.reason;
  std::string text = "the first " + std::to_string(check.steps) +
                     " tokens of the sequences compared equal those recomputed without a cache; "
                     "logits differ by at most " +
                     number_text(check.largest_difference) + " of the largest";
  if (check.undecided > 0)
    text += "; " + std::to_string(check.undecided) +
            " of the tokens could be either of two, as close as rounding";
  return text;
}

std::string kernels_text(const DecodeLatency& latency) {
  return latency.kernels.empty() ? "products: dense, by ATen"
                                 : "products: " + join(latency.kernels, ", ");
}

Metric reading(const std::string& name, double value, const std::string& unit) {
  Metric metric;
  metric.name = name;
  metric.value = value;
  metric.unit = unit;
  return metric;
}

void append(const CausalLm& model, const DecodeTask& task, const DecodeLatency& latency,
            std::vector<Metric>& metrics) {
  const std::string prefix = "decode.batch" + std::to_string(latency.batch) + ".";
  const auto add = [&](const std::string& name, double value, const std::string& unit) -> Metric& {
    return metrics.emplace_back(reading(prefix + name, value, unit));
  };
  Metric& median = add("ms_per_token", 1e3 * latency.median, "ms");
  median.count = static_cast<int64_t>(latency.step_seconds.size());
  for (const double seconds : latency.step_seconds) median.samples.push_back(1e3 * seconds);
  median.note = kernels_text(latency);
  add("ms_per_token_p10", 1e3 * latency.p10, "ms");
  add("ms_per_token_p90", 1e3 * latency.p90, "ms");
  add("ms_first_token", 1e3 * latency.first_seconds, "ms").count = task.repeats;
  add("tokens_per_second", latency.tokens_per_second, "1/s");
  add("bandwidth_share", latency.bandwidth_share, "1");
  add("bytes_per_token", latency.step_bytes.total(), "bytes").note =
      "of a step, which makes one token of each sequence";
  add("bytes_weights", static_cast<double>(latency.memory.weights), "bytes");
  add("bytes_cache", static_cast<double>(latency.memory.cache), "bytes");
  add("bytes_activations", static_cast<double>(latency.memory.activations), "bytes").note =
      "planned from shapes, at most";
  Metric& checked = add("checked_tokens", static_cast<double>(latency.check.tokens), "1");
  checked.note = check_text(latency.check);
  if (task.blocks_of_whole == 0) return;
  const double growth =
      step_growth(model, latency.step_bytes, task.blocks_of_whole, task.from_codes);
  add("ms_per_token_extrapolated", 1e3 * latency.median * growth, "ms").note =
      "extrapolated, not measured: ms_per_token of " + std::to_string(model.block_count()) +
      " of " + std::to_string(task.blocks_of_whole) + " blocks, times " + number_text(growth) +
      ", as often as a step of all blocks reads what a step of these reads";
}

class DecodeLatencyEvaluator final : public Evaluator {
 public:
  std::vector<Metric> evaluate(CausalLm& model, const std::vector<EvaluationInput>& inputs,
                               const EvaluationOptions& options) const override {
    if (options.decode == nullptr || inputs.size() != 1)
      throw Error("decode latency",
                  "expected a task and one text, got " +
                      std::string(options.decode == nullptr ? "no task" : "a task") + " and " +
                      std::to_string(inputs.size()) + " texts");
    const DecodeTask& task = *options.decode;
    Progress& progress = options.progress ? *options.progress : silent_progress();
    progress.begin("steps of decoding", static_cast<int64_t>(task.batch.size()));
    const double read_rate = read_bytes_per_second(model.device(), plain_read_size(model));
    std::vector<Metric> metrics = {reading("decode.read_gb_per_s", read_rate / 1e9, "GB/s")};
    for (const int64_t batch : task.batch) {
      const at::Tensor ids = ids_of(*inputs[0].windows, batch, task.given());
      append(model, task, measure_decode(model, ids, task, read_rate), metrics);
      progress.advance();
    }
    return metrics;
  }
};

}  // namespace

std::unique_ptr<Evaluator> make_decode_latency() {
  return std::make_unique<DecodeLatencyEvaluator>();
}

}  // namespace gptqb
