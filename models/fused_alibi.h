// Causal attention with linear biases for positions (ALiBi) by the fused kernel that ATen picks for
// the device. Scores and their biases stay in f32: more exact than models/alibi_attention.h, which
// rounds scores as transformers does.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "models/alibi_columns.h"

namespace gptqb {

class FusedAlibi {
 public:
  // Whether it computes models of these sizes in `dtype`.
  static bool takes(at::ScalarType dtype, int64_t head_dim, int64_t max_positions);

  // Features of a token that it holds beside what it is given and what it returns.
  static int64_t features_held(int64_t heads, int64_t head_dim,
                               int64_t columns = AlibiColumns::kUsed) {
    return 2 * heads * (head_dim + columns);
  }

  // `columns`: how much longer queries and keys become, a multiple of 8.
  FusedAlibi(int64_t heads, at::ScalarType dtype, at::Device device,
             int64_t columns = AlibiColumns::kUsed)
      : heads_(heads), dtype_(dtype), device_(device), columns_(columns) {}

  // `fused` [sequences, seqlen, 3 hidden], by head q, k, v -> [sequences, seqlen, hidden].
  at::Tensor mix(const at::Tensor& fused);

 private:
  int64_t heads_;
  at::ScalarType dtype_;
  at::Device device_;
  int64_t columns_;
  AlibiColumns biases_;  // of the length that was last asked for
};

}  // namespace gptqb
