// The grid of a range of weights, operation by operation as methods/grid.cpp derives it.
#pragma once

#include <cuda_fp16.h>

#include <cfloat>

#include "kernels/device/rounding.cuh"

__device__ inline float stored_scale(float scale, bool half) {
  constexpr float kSmallestHalf = 5.9604644775390625e-08F;  // 2^-24
  if (half) return fmaxf(__half2float(__float2half_rn(scale)), kSmallestHalf);
  return fmaxf(scale, FLT_MIN);
}

__device__ inline float stored_level(float level, bool half) {
  return half ? __half2float(__float2half_rn(level)) : level;
}

struct DeviceRange {
  float low, high;
  float least_width = 0.F;
};

struct DeviceGrid {
  float scale, zero;
};

// Smallest and largest weight made into the range that is represented.
template <class Rule>
__device__ inline DeviceRange represented_range(float low, float high, const Rule& rule) {
  if (!rule.include_zero) return {low, high, 1e-5F};
  low = fminf(low, 0.F);
  high = fmaxf(high, 0.F);
  if (rule.symmetric) {
    high = fmaxf(-low, high);
    low = rule.one_sided && !(low < 0.F) ? low : -high;
  }
  if (low == 0.F && high == 0.F) return {-1.F, 1.F};
  return {low, high};
}

template <class Rule>
__device__ inline DeviceGrid grid_of_range(DeviceRange range, const Rule& rule) {
  if (rule.ternary)
    return {stored_level(range.high, rule.half_scales), stored_level(range.low, rule.half_scales)};
  const float width = fmaxf(__fsub_rn(range.high, range.low), range.least_width);
  const float scale = stored_scale(divide(width, rule.max_code), rule.half_scales);
  if (rule.symmetric) return {scale, (rule.max_code + 1.F) / 2.F};
  const float zero = round_half_even(divide(-range.low, scale));
  return {scale, fminf(fmaxf(zero, 0.F), rule.max_code)};
}

// |what a uniform grid makes of `weight` - weight|
__device__ inline float rounding_error(float weight, DeviceGrid grid, float max_code) {
  const float code = fminf(
      fmaxf(__fadd_rn(round_half_even(divide(weight, grid.scale)), grid.zero), 0.F), max_code);
  return fabsf(__fsub_rn(__fmul_rn(__fsub_rn(code, grid.zero), grid.scale), weight));
}
