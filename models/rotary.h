// Rotary positions (Su et al. 2021) and their published scalings, numerically as transformers
// computes them.
#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "models/config.h"

namespace gptqb {

// How positions become angles. Pairs are (i, i + head_dim/2), as in Hugging Face checkpoints.
struct RotaryConfig {
  enum class Scaling { kNone, kLinear, kDynamic, kLlama3, kYarn };

  Scaling scaling = Scaling::kNone;
  double theta = 10000.0;
  double factor = 1.0;             // all scalings
  double low_freq_factor = 1.0;    // llama3
  double high_freq_factor = 4.0;   // llama3
  int64_t original_positions = 0;  // llama3, yarn: positions of the model before it was stretched
  double beta_fast = 32.0;         // yarn
  double beta_slow = 1.0;          // yarn
  double attention_factor = 1.0;   // yarn: multiplies cosines and sines
  bool truncate = true;            // yarn: whole dimensions as borders of the ramp
};

// Reads `rope_parameters` (transformers 5), or `rope_theta` with `rope_scaling`. Scalings: default,
// linear, dynamic, llama3, yarn; another one is refused by name. `dynamic` differs from none only
// beyond max_position_embeddings, and longer sequences are refused, so it computes as none.
RotaryConfig read_rotary_config(const ConfigReader& config, int64_t max_positions);

// Angle per position of each pair, f32 [head_dim / 2], CPU.
at::Tensor inverse_frequencies(const RotaryConfig& config, int64_t head_dim);

// Cosines and sines for positions 0 .. positions-1, [positions, head_dim / 2]: computed in f32 on
// the device, then cast.
class RotaryTable {
 public:
  RotaryTable(const RotaryConfig& config, int64_t head_dim, at::ScalarType dtype,
              at::Device device);

  // Rotates `x` [sequences, seqlen, heads, head_dim] by positions 0 .. seqlen-1; a new tensor.
  at::Tensor rotate(const at::Tensor& x);
  // Cosines and sines [count, head_dim / 2] for rotate_pairs of `positions` i64 [count] on the
  // device, all below `bound`; does not wait for the device.
  std::pair<at::Tensor, at::Tensor> turns_at(const at::Tensor& positions, int64_t bound);

 private:
  void grow(int64_t positions);

  RotaryConfig config_;
  at::Tensor frequencies_;
  at::TensorOptions options_;
  at::Tensor cosines_;
  at::Tensor sines_;
};

}  // namespace gptqb
