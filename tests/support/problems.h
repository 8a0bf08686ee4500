// Seeded layers to quantize: weights, calibration inputs and Hessians, from tame to
// ill-conditioned.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "methods/calibration.h"
#include "methods/gptq_problem.h"

namespace gptqb::test {

// Standard normal f64 [rows, columns]; the same numbers with every standard library.
inline at::Tensor normal_matrix(int64_t rows, int64_t columns, uint64_t seed) {
  std::mt19937_64 generator(seed);
  const auto uniform = [&] {
    return (static_cast<double>(generator() >> 11) + 0.5) / 9007199254740992.0;
  };
  auto result = at::empty({rows, columns}, at::kDouble);
  auto* values = result.mutable_data_ptr<double>();
  for (int64_t i = 0; i < rows * columns; ++i)
    values[i] = std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
  return result;
}

enum class Inputs {
  kRandom,          // independent columns
  kCorrelated,      // a few common directions carry most of the energy
  kIllConditioned,  // fewer tokens than columns, correlated, some columns 100 times larger than
                    // others
  kDead,            // correlated, every seventh column never active
};

inline std::string inputs_name(Inputs inputs) {
  switch (inputs) {
    case Inputs::kRandom:
      return "random";
    case Inputs::kCorrelated:
      return "correlated";
    case Inputs::kIllConditioned:
      return "ill_conditioned";
    case Inputs::kDead:
      return "dead";
  }
  return "";
}

// Calibration inputs f32 [4, tokens / 4, columns].
inline at::Tensor calibration_inputs(Inputs kind, int64_t columns, uint64_t seed) {
  const int64_t tokens = (kind == Inputs::kIllConditioned ? columns / 2 : 2 * columns) / 4 * 4 + 4;
  auto x = normal_matrix(tokens, columns, seed);
  if (kind != Inputs::kRandom) {
    const auto directions = normal_matrix(4, columns, seed + 1);
    x = x * 0.3 + at::mm(normal_matrix(tokens, 4, seed + 2), directions);
  }
  if (kind == Inputs::kIllConditioned) {
    auto sizes = at::ones({columns}, at::kDouble);
    for (int64_t i = 0; i < columns; i += 17) sizes[i] = 100.0;
    for (int64_t i = 5; i < columns; i += 11) sizes[i] = 0.01;
    x = x * sizes;
  }
  if (kind == Inputs::kDead)
    for (int64_t i = 3; i < columns; i += 7) x.select(1, i).zero_();
  return x.to(at::kFloat).reshape({4, tokens / 4, columns});
}

// The Hessian of calibration_inputs(), f32, published scale.
inline at::Tensor hessian_of(const at::Tensor& inputs) {
  CalibrationStats stats(inputs.size(2), at::kCPU);
  stats.add(inputs);
  return stats.hessian();
}

}  // namespace gptqb::test
