#include "models/fused_alibi.h"

#include <cmath>

namespace gptqb {
namespace {

// What ATen's fused kernels and 16-byte copies ask of sizes.
constexpr int64_t kStep = 8;
constexpr int64_t kMaxWidth = 256;

// The same memory as pieces of 16 bytes: a copy then moves whole vectors.
at::Tensor in_vectors(const at::Tensor& x) { return x.view(at::kComplexDouble); }

}  // namespace

bool FusedAlibi::takes(at::ScalarType dtype, int64_t head_dim, int64_t max_positions) {
  return (dtype == at::kHalf || dtype == at::kBFloat16) && head_dim % kStep == 0 &&
         head_dim + AlibiColumns::kUsed <= kMaxWidth &&
         max_positions <= AlibiColumns::kMaxPositions;
}

at::Tensor FusedAlibi::mix(const at::Tensor& fused) {
  const int64_t sequences = fused.size(0);
  const int64_t seqlen = fused.size(1);
  const int64_t head_dim = fused.size(2) / (3 * heads_);
  const double scale = 1.0 / std::sqrt(static_cast<double>(head_dim));
  if (!biases_.keys.defined() || biases_.keys.size(0) != seqlen)
    biases_ = alibi_columns(alibi_slopes(heads_, device_), seqlen, scale, dtype_, columns_);
  const at::Tensor parts =
      fused.view({sequences, seqlen, heads_, 3, head_dim}).permute({3, 0, 1, 2, 4});
  const at::Tensor longer =
      at::empty({2, sequences, seqlen, heads_, head_dim + columns_}, fused.options());
  in_vectors(longer.narrow(4, 0, head_dim)).copy_(in_vectors(parts.narrow(0, 0, 2)));
  const at::Tensor biases = longer.narrow(4, head_dim, columns_);
  in_vectors(biases[0]).copy_(in_vectors(biases_.queries));
  in_vectors(biases[1]).copy_(in_vectors(biases_.keys).unsqueeze(1));
  const at::Tensor mixed = at::scaled_dot_product_attention(
      longer[0].transpose(1, 2), longer[1].transpose(1, 2), parts[2].transpose(1, 2),
      /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true, scale);
  return mixed.transpose(1, 2).reshape({sequences, seqlen, heads_ * head_dim});
}

}  // namespace gptqb
