#include "runner/packed_evaluation.h"

#include <cmath>

#include "common/error.h"
#include "common/statistics.h"
#include "common/text.h"
#include "runner/decode_cell.h"

namespace gptqb {
namespace {

const Metric& metric_of(const Record& record, const std::string& name) {
  for (const Metric& metric : record.metrics)
    if (metric.name == name) return metric;
  throw Error("record", "expected the metric '" + name + "', got a record without it");
}

Metric difference_of(const Metric& packed, const Metric& dequantized, const std::string& dataset) {
  std::vector<double> differences;
  for (size_t i = 0; i < packed.samples.size(); ++i)
    differences.push_back(packed.samples[i] - dequantized.samples.at(i));
  const MeanEstimate mean = estimate_mean(differences);
  Metric metric;
  metric.name = "packed_difference." + dataset;
  metric.value = mean.mean;
  metric.unit = "nats/token";
  metric.count = mean.count;
  metric.standard_error = mean.standard_error;
  return metric;
}

void require_close(const Metric& difference, const std::filesystem::path& folder,
                   const std::string& kernels) {
  if (std::abs(difference.value) <= kPackedLossBound) return;
  throw Error(folder.string() + ", " + difference.name,
              "expected a loss within " + std::to_string(kPackedLossBound) +
                  " nats a token of the dequantized weights', got " +
                  std::to_string(difference.value) + " by " + kernels +
                  ". The folder holds the codes that were measured: this is a fault of the kernel, "
                  "or activations that float16 does not hold. Please report it");
}

// Of a `model` of float32 in float16, which packed kernels compute in.
std::unique_ptr<CausalLm> open_packed(const std::filesystem::path& folder, const Cell& cell,
                                      const CausalLm& model) {
  return open_model(folder, {.dtype = model.dtype() == at::kFloat ? "float16" : cell.model().dtype,
                             .device = model.device(),
                             .backend = "packed",
                             .reference_forward = cell.compat().reference_forward});
}

}  // namespace

std::string kernel_names(const CausalLm& model) {
  std::vector<std::string> names;
  for (const auto& [name, count] : model.kernels_run()) names.push_back(name);
  return join(names, ", ");
}

void time_saved(const std::filesystem::path& folder, const Cell& cell, PreparedCell& prepared,
                const RunOptions& options, Record& record) {
  prepared.model->release_block();
  const auto packed = open_packed(folder, cell, *prepared.model);
  if (prepared.model->dtype() == at::kFloat)
    record.notes.push_back(
        "decode_latency: the model computes in float32, packed kernels in float16");
  for (size_t i = 0; i < cell.evaluators().size(); ++i) {
    const EvaluatorSpec& spec = cell.evaluators()[i];
    if (spec.name != "decode_latency") continue;
    const DecodeTask decode = decode_task(cell, spec, /*from_codes=*/true);
    const std::vector<Metric> metrics = evaluators().at(spec.name).make()->evaluate(
        *packed, prepared.evaluations[i], {.decode = &decode, .progress = options.progress});
    record.metrics.insert(record.metrics.end(), metrics.begin(), metrics.end());
  }
  record.policies["packed_products"] = kernel_names(*packed);
}

void evaluate_saved(const std::filesystem::path& folder, const Cell& cell,
                    const PreparedCell& prepared, const RunOptions& options, Record& record) {
  std::unique_ptr<CausalLm> packed;
  for (size_t i = 0; i < cell.evaluators().size(); ++i) {
    const EvaluatorSpec& spec = cell.evaluators()[i];
    if (spec.name != "perplexity") continue;
    if (!packed) {
      try {
        packed = open_packed(folder, cell, *prepared.model);
      } catch (const Error& error) {
        record.notes.push_back(std::string("not evaluated by packed kernels: ") + error.what());
        return;
      }
      if (prepared.model->dtype() == at::kFloat)
        record.notes.push_back(
            "perplexity_packed: the model computes in float32, packed kernels in float16");
    }
    for (Metric& metric : evaluators().at(spec.name).make()->evaluate(
             *packed, prepared.evaluations[i],
             {.batch = spec.batch,
             .loss_in_model_dtype = cell.compat().reference_loss_dtype,
             .progress = options.progress})) {
      const std::string dataset = metric.name.substr(metric.name.find('.') + 1);
      Metric difference = difference_of(metric, metric_of(record, metric.name), dataset);
      require_close(difference, folder, kernel_names(*packed));
      metric.name = "perplexity_packed." + dataset;
      record.metrics.push_back(std::move(metric));
      record.metrics.push_back(std::move(difference));
    }
  }
  if (packed) record.policies["packed_products"] = kernel_names(*packed);
}

}  // namespace gptqb
