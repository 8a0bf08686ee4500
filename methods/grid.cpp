#include "methods/grid.h"

#include <limits>

#include "common/error.h"
#include "methods/grid_fused.h"

namespace gptqb {
namespace {

// The scale as it will be stored, back in its own dtype.
at::Tensor rounded_scale(const at::Tensor& scale, ScaleDtype dtype) {
  if (dtype == ScaleDtype::kFloat16) {
    constexpr double kSmallestHalf = 5.9604644775390625e-08;  // 2^-24
    return scale.to(at::kHalf).to(scale.scalar_type()).clamp_min(kSmallestHalf);
  }
  return scale.to(at::kFloat).to(scale.scalar_type()).clamp_min(std::numeric_limits<float>::min());
}

// A ternary level as it will be stored; 0 is a level like any other.
at::Tensor rounded_level(const at::Tensor& level, ScaleDtype dtype) {
  return level.to(dtype == ScaleDtype::kFloat16 ? at::kHalf : at::kFloat).to(level.scalar_type());
}

struct Interval {
  at::Tensor low;
  at::Tensor high;
  double least_width = 0;
};

// Smallest and largest weight, 0 included; symmetric and all-zero cases applied.
Interval range_of(const at::Tensor& weights, const GridRule& rule) {
  auto low = weights.amin(-1);
  auto high = weights.amax(-1);
  if (!rule.include_zero) return {low, high, 1e-5};
  low.clamp_max_(0);
  high.clamp_min_(0);
  if (rule.quant.symmetric) {
    high = at::maximum(low.abs(), high);
    low = rule.one_sided ? at::where(low < 0, -high, low) : -high;
  }
  const auto empty = at::logical_and(low == 0, high == 0);
  return {at::where(empty, -at::ones_like(low), low), at::where(empty, at::ones_like(high), high)};
}

Grid grid_of_range(const Interval& range, const GridRule& rule) {
  if (rule.quant.ternary())
    return {rounded_level(range.high, rule.quant.scale_dtype),
            rounded_level(range.low, rule.quant.scale_dtype)};
  const int64_t max_code = rule.quant.max_code();
  // Divided by a tensor: a GPU multiplies by the reciprocal of a plain number, one unit in the last
  // place off, and weights that lie on a rounding boundary then take other codes.
  const auto steps = at::scalar_tensor(static_cast<double>(max_code), range.high.options());
  const auto width = (range.high - range.low).clamp_min(range.least_width);
  const auto scale = rounded_scale(width / steps, rule.quant.scale_dtype);
  if (rule.quant.symmetric)
    return {scale, at::full_like(scale, static_cast<double>((max_code + 1) / 2))};
  return {scale, at::round(-range.low / scale).clamp(0, max_code)};
}

// Shrinks the range step by step and keeps, for each group, the first grid with the smallest error.
Grid search_grid(const at::Tensor& weights, const Interval& range, const GridRule& rule) {
  const auto& quant = rule.quant;
  const int64_t candidates = search_candidates(quant);
  auto best = grid_of_range(range, rule);
  auto smallest = at::full_like(best.scale, std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < candidates; ++i) {
    const double share = 1.0 - static_cast<double>(i) / static_cast<double>(quant.grid_steps);
    const auto grid =
        grid_of_range({range.low * share, range.high * share, range.least_width}, rule);
    const auto scale = grid.scale.unsqueeze(-1);
    const auto zero = grid.zero.unsqueeze(-1);
    const auto codes = quantize_values(weights, scale, zero, quant.max_code());
    const auto error =
        (dequantize_values(codes, scale, zero) - weights).abs_().pow_(quant.grid_norm).sum(-1);
    const auto better = error < smallest;
    smallest = at::where(better, error, smallest);
    best.scale = at::where(better, grid.scale, best.scale);
    best.zero = at::where(better, grid.zero, best.zero);
  }
  return best;
}

}  // namespace

int64_t search_candidates(const QuantConfig& quant) {
  return static_cast<int64_t>(quant.grid_shrink * static_cast<double>(quant.grid_steps));
}

Grid fit_grid(const at::Tensor& weights, const GridRule& rule) {
  if (can_fit_fused(weights, rule)) {
    const auto leading = weights.sizes().slice(0, static_cast<size_t>(weights.dim() - 1));
    Grid grid{at::empty(leading, weights.options()), at::empty(leading, weights.options())};
    fit_grid_fused(weights, rule, grid);
    return grid;
  }
  const auto range = range_of(weights, rule);
  return rule.quant.grid_search == GridSearch::kMse ? search_grid(weights, range, rule)
                                                    : grid_of_range(range, rule);
}

void fit_grid_into(const at::Tensor& weights, const GridRule& rule, const Grid& grid) {
  if (can_fit_fused(weights, rule) && grid.scale.is_contiguous() && grid.zero.is_contiguous()) {
    fit_grid_fused(weights, rule, grid);
    return;
  }
  const auto fitted = fit_grid(weights, rule);
  grid.scale.copy_(fitted.scale);
  grid.zero.copy_(fitted.zero);
}

Grid fit_group_grids(const at::Tensor& weights, const GridRule& rule) {
  const int64_t rows = weights.size(0);
  const int64_t columns = weights.size(1);
  const int64_t width = rule.quant.columns_per_group(columns);
  const int64_t full = columns / width;
  const auto head = fit_grid(weights.narrow(1, 0, full * width).reshape({rows, full, width}), rule);
  if (columns % width == 0) return head;
  const auto tail = fit_grid(weights.narrow(1, full * width, columns % width), rule);
  return {at::cat({head.scale, tail.scale.unsqueeze(1)}, 1),
          at::cat({head.zero, tail.zero.unsqueeze(1)}, 1)};
}

at::Tensor quantize_values(const at::Tensor& values, const at::Tensor& scale,
                           const at::Tensor& zero, int64_t max_code) {
  return (values / scale).round_().add_(zero).clamp_(0, max_code);
}

at::Tensor dequantize_values(const at::Tensor& codes, const at::Tensor& scale,
                             const at::Tensor& zero) {
  return (codes - zero).mul_(scale);
}

at::Tensor quantize_values(const at::Tensor& values, const at::Tensor& scale,
                           const at::Tensor& zero, const QuantConfig& quant) {
  if (!quant.ternary()) return quantize_values(values, scale, zero, quant.max_code());
  // 0, 1 or 2 by how many of the two borders lie below; a value on a border goes to 0.
  return (values >= zero / 2).to(values.scalar_type()).add_(values > scale / 2);
}

at::Tensor dequantize_values(const at::Tensor& codes, const at::Tensor& scale,
                             const at::Tensor& zero, const QuantConfig& quant) {
  if (!quant.ternary()) return dequantize_values(codes, scale, zero);
  return at::where(codes == 2, scale, at::where(codes == 0, zero, at::zeros({}, scale.options())));
}

Grid spread_over_columns(const Grid& grids, int64_t in_features, int64_t width) {
  const auto index =
      at::arange(in_features, grids.scale.options().dtype(at::kLong)).div(width, "floor");
  return {grids.scale.index_select(1, index), grids.zero.index_select(1, index)};
}

void check_scales(const at::Tensor& scales, const std::string& layer) {
  const auto bad = scales.isfinite().logical_not();
  if (!bad.any().item<bool>()) return;
  throw Error(layer, "expected scales and levels that fit float16 (at most 65504), got " +
                         std::to_string(bad.sum().item<int64_t>()) +
                         " that overflow. Set quant.scale_dtype: float32");
}

void store_grids(const Grid& grids, const QuantConfig& quant, const std::string& layer,
                 QuantizedLinear& result) {
  check_scales(grids.scale, layer);
  result.bits = quant.bits;
  result.group_size = quant.group_size;
  if (quant.ternary()) {
    check_scales(grids.zero, layer);
    result.levels =
        at::stack({grids.zero, at::zeros_like(grids.zero), grids.scale}, 2).to(at::kFloat);
    return;
  }
  result.scales = grids.scale.to(at::kFloat).contiguous();
  result.zeros = grids.zero.to(at::kByte).contiguous();
}

QuantizedLinear round_to_nearest(const at::Tensor& weights, const GridRule& rule,
                                 const std::string& layer) {
  const auto grids = fit_group_grids(weights, rule);
  const auto columns =
      spread_over_columns(grids, weights.size(1), rule.quant.columns_per_group(weights.size(1)));
  QuantizedLinear result;
  store_grids(grids, rule.quant, layer, result);
  result.codes =
      quantize_values(weights, columns.scale, columns.zero, rule.quant).to(at::kByte).contiguous();
  return result;
}

int64_t count_clipped(const at::Tensor& weights, const QuantizedLinear& quantized) {
  const int64_t columns = quantized.in_features();
  const Grid grids = quantized.ternary()
                         ? Grid{quantized.levels.select(2, 2), quantized.levels.select(2, 0)}
                         : Grid{quantized.scales, quantized.zeros.to(at::kFloat)};
  Grid of_column;
  if (quantized.group_of_input.defined()) {
    const auto index = quantized.group_of_input.to(at::kLong);
    of_column = {grids.scale.index_select(1, index), grids.zero.index_select(1, index)};
  } else {
    const int64_t width = quantized.group_size < 0 ? columns : quantized.group_size;
    of_column = spread_over_columns(grids, columns, width);
  }
  const auto values = weights.to(at::kFloat);
  if (quantized.ternary())
    return at::logical_or(values > of_column.scale * 1.5, values < of_column.zero * 1.5)
        .sum()
        .item<int64_t>();
  const auto raw = (values / of_column.scale).round_().add_(of_column.zero);
  const auto max_code = static_cast<double>((int64_t{1} << quantized.bits) - 1);
  return at::logical_or(raw<0, raw> max_code).sum().item<int64_t>();
}

}  // namespace gptqb
