// Whole layers for methods: weights from literals, statistics with a wanted Hessian, problems in
// one line.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "methods/quantizer.h"

namespace gptqb::test {

// f32 [rows, columns] from rows of literals.
inline at::Tensor matrix(std::initializer_list<std::vector<float>> rows) {
  std::vector<at::Tensor> tensors;
  for (const auto& row : rows) tensors.push_back(at::tensor(row));
  return at::stack(tensors);
}

// Standard normal f32, by ATen's generator.
inline at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed));
}

// Inputs [1, n, n] whose Hessian (published scale) is `h`, any positive semidefinite matrix.
inline at::Tensor inputs_with_hessian(const at::Tensor& h) {
  const auto [values, vectors] = at::linalg_eigh(h.to(at::kDouble) / 2);
  return (vectors * values.clamp_min(0).sqrt().unsqueeze(0)).t().to(at::kFloat).unsqueeze(0);
}

inline CalibrationStats stats_of(const at::Tensor& inputs) {
  CalibrationStats stats(inputs.size(2), inputs.device());
  stats.add(inputs);
  return stats;
}

// Settings of most hand-made examples: 4 bits, asymmetric, whole rows, float32 scales, everything
// in float64.
inline LinearProblem layer_problem(const at::Tensor& weight, const CalibrationStats* stats) {
  LinearProblem problem;
  problem.layer = "model.layers.3.mlp.down_proj";
  problem.weight = weight;
  problem.stats = stats;
  problem.quant = {.bits = 4, .group_size = -1, .scale_dtype = ScaleDtype::kFloat32};
  problem.method.compute = ComputeDtype::kFloat64;
  return problem;
}

inline LayerResult quantize_with(const std::string& method, const LinearProblem& problem) {
  return quantizers().at(method).make()->quantize(problem);
}

// "03000310 / 30303003": codes row by row.
inline std::string codes_text(const QuantizedLinear& quantized) {
  std::string text;
  for (int64_t r = 0; r < quantized.out_features(); ++r) {
    if (r > 0) text += " / ";
    for (int64_t c = 0; c < quantized.in_features(); ++c)
      text += std::to_string(quantized.codes[r][c].item<int64_t>());
  }
  return text;
}

// The field catalogue's example of 4 rows and 8 columns, and its Hessian ones + 0.5 I.
inline at::Tensor catalogue_weights() {
  return matrix({{-.9f, .4f, -.4f, -.4f, -.9f, .7f, -.5f, -.7f},
                 {.5f, -.8f, .6f, -.6f, 1.f, -.6f, .2f, .8f},
                 {.2f, -.7f, .6f, .8f, .9f, -.6f, .1f, -.2f},
                 {.7f, -.2f, -1.f, 0.f, -.7f, 0.f, -.5f, .7f}});
}
inline at::Tensor catalogue_hessian() {
  return at::ones({8, 8}, at::kDouble) + 0.5 * at::eye(8, at::kDouble);
}

}  // namespace gptqb::test
