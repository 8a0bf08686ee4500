#include "methods/quantize_report.h"

namespace gptqb {
namespace {

int64_t stored_bits(const QuantConfig& quant, const LinearReplacement& replacement) {
  return replacement.stored_bits(quant.scale_dtype == ScaleDtype::kFloat16 ? 16 : 32);
}

int64_t weights_of(const LinearReplacement& replacement) {
  return replacement.out_features() * replacement.in_features();
}

}  // namespace

void QuantizeReport::count_linears(const BlockModel& model) {
  for (const Stage& stage : model.stages())
    for (const std::string& linear : stage.linears) linear_weights += model.weight(linear).numel();
}

void QuantizeReport::count(const QuantConfig& quant, const LinearReplacement& replacement) {
  quantized_weights += weights_of(replacement);
  quantized_bits += stored_bits(quant, replacement);
}

void QuantizeReport::count_end(const QuantConfig& quant, const LinearReplacement& replacement) {
  end_weights += weights_of(replacement);
  end_bits += stored_bits(quant, replacement);
}

double QuantizeReport::seconds_published_scope() const {
  double sum = 0;
  for (const auto& [phase, value] : seconds)
    if (phase != "read" && phase != "write") sum += value;
  return sum;
}

void note_layer(const LayerHealth& health, Progress& progress) {
  if (health.status != "ok") progress.note(health.layer + ": " + health.status);
  if (health.damping_tries > 1 && health.status == "ok")
    progress.note(health.layer + ": damping raised to " + std::to_string(*health.damping));
  if (health.relative_error && health.relative_error_rtn &&
      *health.relative_error > *health.relative_error_rtn)
    progress.note(health.layer + ": error above that of RTN");
}

}  // namespace gptqb
