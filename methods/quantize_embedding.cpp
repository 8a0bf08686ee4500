#include "methods/quantize_embedding.h"

#include <algorithm>
#include <utility>

#include "common/progress.h"

namespace gptqb {
namespace {

// Weights that are rounded together: a vocabulary of 250 000 rows is never in f32 as a whole.
constexpr int64_t kWeightsAtOnce = int64_t{1} << 25;

// Squared norms of the rows, f64 [vocabulary]: of the errors and of the weights.
struct RowNorms {
  at::Tensor error;
  at::Tensor weight;
};

// Share of what `ids` look up that is error; empty without ids.
std::optional<double> relative_error_over(const at::Tensor& ids, const RowNorms& norms) {
  if (!ids.defined() || ids.numel() == 0) return std::nullopt;
  const auto rows = ids.to(at::kCPU, at::kLong).reshape({-1});
  const double weight = norms.weight.index_select(0, rows).sum().item<double>();
  if (!(weight > 0)) return std::nullopt;
  return norms.error.index_select(0, rows).sum().item<double>() / weight;
}

}  // namespace

LayerResult quantize_embedding(BlockModel& model, const QuantConfig& quant,
                               const CompatPolicy& compat, const at::Tensor& calibration,
                               const at::Tensor& heldout) {
  const auto rounding = quantizers().at("rtn").make();
  const auto weight = model.end_weight(ModelEnd::kEmbedding);
  const int64_t step = std::max<int64_t>(1, kWeightsAtOnce / weight.size(1));
  std::vector<at::Tensor> codes, scales, zeros, errors, norms;
  LayerHealth health;
  int64_t group_size = quant.group_size;
  for (int64_t begin = 0; begin < weight.size(0); begin += step) {
    throw_if_interrupted();
    const auto rows = weight.narrow(0, begin, std::min(step, weight.size(0) - begin));
    LinearProblem problem;
    problem.layer = model.extras().embedding;
    problem.weight = rows.to(model.device());
    problem.quant = quant;
    problem.compat = compat;
    const auto result = rounding->quantize(problem);
    const QuantizedLinear& part = result.quantized();
    const double seconds = health.seconds_solve + result.health.seconds_solve;
    const int64_t clipped = health.clipped + result.health.clipped;
    health = result.health;
    health.seconds_solve = seconds;
    health.clipped = clipped;
    group_size = part.group_size;
    codes.push_back(part.codes.cpu());
    scales.push_back(part.scales.cpu());
    zeros.push_back(part.zeros.cpu());
    const auto stored = part.dequantize(weight.scalar_type()).cpu().to(at::kFloat);
    errors.push_back((rows.to(at::kFloat) - stored).square().sum(1, false, at::kDouble));
    norms.push_back(rows.to(at::kFloat).square().sum(1, false, at::kDouble));
  }
  const RowNorms all{at::cat(errors), at::cat(norms)};
  health.relative_error = health.relative_error_rtn = relative_error_over(calibration, all);
  health.relative_error_heldout = relative_error_over(heldout, all);
  if (calibration.defined()) {
    health.tokens = calibration.numel();
    health.sequences = calibration.size(0);
  }
  return {QuantizedLinear{.codes = at::cat(codes),
                          .scales = at::cat(scales),
                          .zeros = at::cat(zeros),
                          .levels = {},
                          .group_of_input = {},
                          .bits = quant.bits,
                          .group_size = group_size},
          std::move(health)};
}

}  // namespace gptqb
