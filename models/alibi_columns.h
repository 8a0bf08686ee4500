// ALiBi's biases (Press et al. 2022) as columns of queries and keys.
//
// Fused attention kernels take no biases by slope, and those that take a tensor of them take it in
// 16 bits, where late positions of steep heads have steps of 1/2 to 1. So a head's slope goes
// beside its queries and positions beside keys: the product of the longer vectors is the score with
// its bias in it, summed in f32 as the score is.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace gptqb {

// One slope a head, f32 [heads]: 2^(-8 i / heads) where heads is a power of two; else those of the
// next lower power of two, then every other one of the next higher (Press et al. 2022, section 3).
at::Tensor alibi_slopes(int64_t heads, at::Device device);

struct AlibiColumns {
  // Columns that hold biases; more of them are zeros.
  static constexpr int64_t kUsed = 8;
  // Positions in 16 bits are exact up to here.
  static constexpr int64_t kMaxPositions = int64_t{1} << 16;

  at::Tensor queries;  // [heads, columns]
  at::Tensor keys;     // [seqlen, columns]
};

// queries[h] . keys[p] * scale = slopes[h] * p, to 2^-22 of it and 2^-25 p (f32 sums aside): slopes
// as sums of three numbers of `dtype` (f16, bf16 or f32), positions as sums of two, all products
// exact. `slopes` f32 [heads]; seqlen at most kMaxPositions; `columns` at least kUsed.
AlibiColumns alibi_columns(const at::Tensor& slopes, int64_t seqlen, double scale,
                           at::ScalarType dtype, int64_t columns = AlibiColumns::kUsed);

}  // namespace gptqb
