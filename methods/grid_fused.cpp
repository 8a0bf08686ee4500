#include "methods/grid_fused.h"

#include "kernels/grid_fit.h"
#include "methods/device_stream.h"

namespace gptqb {

bool can_fit_fused(const at::Tensor& weights, const GridRule& rule) {
  return weights.is_cuda() && weights.scalar_type() == at::kFloat && !rule.step_by_step &&
         weights.numel() > 0;
}

void fit_grid_fused(const at::Tensor& weights, const GridRule& rule, const Grid& grid) {
  const int64_t columns = weights.size(-1);
  // A matrix is read as it lies; of more dimensions the leading ones are made one.
  const auto vectors = weights.dim() == 2 ? weights : weights.reshape({-1, columns});
  kernels::GridFit fit;
  fit.weights = vectors.const_data_ptr<float>();
  fit.vectors = vectors.size(0);
  fit.columns = columns;
  fit.vector_stride = vectors.stride(0);
  fit.column_stride = vectors.stride(1);
  fit.max_code = static_cast<float>(rule.quant.max_code());
  fit.ternary = rule.quant.ternary();
  fit.symmetric = rule.quant.symmetric;
  fit.one_sided = rule.one_sided;
  fit.include_zero = rule.include_zero;
  fit.half_scales = rule.quant.scale_dtype == ScaleDtype::kFloat16;
  if (rule.quant.grid_search == GridSearch::kMse) fit.candidates = search_candidates(rule.quant);
  fit.steps = static_cast<double>(rule.quant.grid_steps);
  fit.norm = static_cast<float>(rule.quant.grid_norm);
  fit.scale = grid.scale.mutable_data_ptr<float>();
  fit.zero = grid.zero.mutable_data_ptr<float>();
  const DeviceStream stream(weights.device());
  kernels::fit_grids_cuda(fit, stream.handle());
}

}  // namespace gptqb
