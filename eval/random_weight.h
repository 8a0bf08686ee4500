// Quantized weights made of random codes, and the exact product by them: what a kernel is measured
// on and held against.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "kernels/quant_view.h"

namespace gptqb {

struct RandomWeightSpec {
  int64_t rows = 0;     // out features
  int64_t columns = 0;  // in features
  int64_t bits = 4;
  int64_t group_size = -1;
  bool symmetric = true;
  bool act_order = false;  // groups of group_size columns from anywhere
  uint64_t seed = 0;

  bool operator==(const RandomWeightSpec&) const = default;
};

// In canonical form, on the host. Every code occurs; scales are float16 numbers near
// 4 / 2^bits / sqrt(columns), so that outputs for normal activations are of the order of 1. The
// same for the same spec, whatever the number of threads.
class RandomWeight {
 public:
  explicit RandomWeight(const RandomWeightSpec& spec);

  const RandomWeightSpec& spec() const { return spec_; }
  int64_t groups() const { return groups_; }
  kernels::QuantView view() const;  // of this object's memory

 private:
  RandomWeightSpec spec_;
  int64_t groups_ = 1;
  std::vector<uint8_t> codes_;
  std::vector<float> scales_;
  std::vector<uint8_t> zeros_;
  std::vector<int32_t> group_of_input_;
};

// How far a result lies from the exact one.
struct ProductError {
  double max_relative = 0;   // largest error over the largest exact value
  double mean_relative = 0;  // mean error over the mean size of exact values
  // Largest error over its bound: above 1, or NaN, the result is wrong.
  double of_bound = 0;
  bool right() const { return of_bound <= 1; }
};

// The product y[m, n] = x[m, k] w[n, k]^T (+ bias) in float64, taken over whole rows of y in parts
// of w, on one device.
//
// The bound of an output: with u the rounding of x's type (2^-11 float16, 2^-8 bfloat16),
// 3 u norm(x w), for weights that are rounded to that type before they are multiplied (errors of
// different columns are independent: over 7 standard deviations), and 2^-25 k norm(x t) for float32
// sums, also those of tensor cores, which cut digits off; t is the weight with code and zero point
// added, as kernels may multiply by both apart. Then half a step of y's type. Norms are over k.
class ExactProduct {
 public:
  // Of a quantized weight; copies it to `device`.
  ExactProduct(const kernels::QuantView& view, at::Device device);
  // Of a dense weight [n, k].
  explicit ExactProduct(const at::Tensor& weight);

  // x [m, k] and y [m, n] of the same type (float16, bfloat16, float32) on the device; bias [n] or
  // undefined.
  ProductError error_of(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& y) const;

 private:
  struct Part {
    at::Tensor weight;  // [rows, k] in float64
    at::Tensor terms;   // the same with scale * (code + zero)
  };
  Part part(int64_t begin, int64_t rows) const;

  int64_t rows_ = 0, columns_ = 0;
  at::Tensor dense_;
  at::Tensor codes_, scales_, zeros_;
  at::Tensor group_of_input_;  // [columns], int64
};

}  // namespace gptqb
