// The only place that knows how weights become a quantization grid, and values become codes.
//
// A grid is a scale and a zero point for the columns that share it: code q stands for scale * (q -
// zero), with q = clamp(round(w / scale) + zero, 0, max_code) and rounding half to even (published
// code; protocol.md 5.2-5.4). The range always includes 0, so 0 is represented exactly. An all-zero
// group gets the range [-1, 1].
//
// Ternary weights have the three levels {min, 0, max} of their group instead: above max / 2 a
// weight becomes max, below min / 2 it becomes min, else 0 (protocol.md 5.6).
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "methods/quant_config.h"
#include "methods/quantized_linear.h"

namespace gptqb {

// Scales and zero points of one or more groups, in the dtype of the weights they were fitted on
// (f32 or f64). Ternary: the outer levels, held in the same two places as the published quantizer
// holds them.
struct Grid {
  at::Tensor scale;  // > 0, exact in the stored dtype; infinite if it overflowed float16 (see
                     // check_scales). Ternary: the upper level, >= 0
  at::Tensor zero;   // integers 0 .. max_code. Ternary: the lower level, <= 0
};

// What a grid is fitted with. `one_sided`: CompatPolicy::reference_one_sided.
struct GridRule {
  QuantConfig quant;
  bool one_sided = false;
  // false: llm-awq's range, smallest to largest weight even if 0 lies outside, at least 1e-5 wide;
  // the zero point is then clamped, so that such a range still starts or ends at 0.
  bool include_zero = true;
  // true: as tensor operations in the published order, also where one kernel could do it all.
  bool step_by_step = false;
};

// Ranges that the search tries, the whole one included.
int64_t search_candidates(const QuantConfig& quant);

// One grid for each vector along the last dimension of `weights` [..., columns] (f32 or f64): scale
// and zero [...]. Scales are rounded to quant.scale_dtype before anything is derived from them; one
// that would round to zero becomes the smallest positive number there is.
Grid fit_grid(const at::Tensor& weights, const GridRule& rule);
// The same, written to `grid`, whose tensors have that shape already.
void fit_grid_into(const at::Tensor& weights, const GridRule& rule, const Grid& grid);

// Grids of all groups of `weights` [rows, in] in natural column order: scale and zero [rows,
// groups].
Grid fit_group_grids(const at::Tensor& weights, const GridRule& rule);

// Codes of `values`, as integers in the dtype of `values`; scale and zero must broadcast.
at::Tensor quantize_values(const at::Tensor& values, const at::Tensor& scale,
                           const at::Tensor& zero, int64_t max_code);

// scale * (codes - zero).
at::Tensor dequantize_values(const at::Tensor& codes, const at::Tensor& scale,
                             const at::Tensor& zero);

// The same two by the rule of `quant`: a uniform grid, or three levels.
at::Tensor quantize_values(const at::Tensor& values, const at::Tensor& scale,
                           const at::Tensor& zero, const QuantConfig& quant);
at::Tensor dequantize_values(const at::Tensor& codes, const at::Tensor& scale,
                             const at::Tensor& zero, const QuantConfig& quant);

// Puts `grids` [rows, groups] into `result` as `quant` stores them: scales and zeros, or levels;
// bits and group_size too. Throws Error naming `layer` for what overflowed float16.
void store_grids(const Grid& grids, const QuantConfig& quant, const std::string& layer,
                 QuantizedLinear& result);

// Scale and zero of every column [rows, in] from grids [rows, groups] of `width` columns each.
Grid spread_over_columns(const Grid& grids, int64_t in_features, int64_t width);

// Round to nearest: every weight on the grid of its group. `weights` [rows, in] f32 or f64.
// Throws Error naming `layer` for scales that overflow.
QuantizedLinear round_to_nearest(const at::Tensor& weights, const GridRule& rule,
                                 const std::string& layer);

// Throws Error naming `layer` if a scale or level is not finite (float16 ends at 65504).
void check_scales(const at::Tensor& scales, const std::string& layer);

// Weights [rows, in] whose code had to be clamped: they lie outside the range their grid covers, by
// more than half a step (ternary: half the distance of the outer level from 0).
int64_t count_clipped(const at::Tensor& weights, const QuantizedLinear& quantized);

}  // namespace gptqb
