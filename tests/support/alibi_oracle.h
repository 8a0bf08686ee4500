// Causal attention with ALiBi in float64, head by head, and how far from it one may come that
// computes in 16 bits what is said here.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <vector>

namespace gptqb::test {

// Press et al. 2022, section 3.
inline std::vector<double> published_slopes(int64_t heads) {
  int64_t lower = 1;
  while (2 * lower <= heads) lower *= 2;
  std::vector<double> slopes;
  for (int64_t i = 1; i <= lower; ++i)
    slopes.push_back(std::pow(2., -8. * static_cast<double>(i) / static_cast<double>(lower)));
  for (int64_t i = 1; lower + i <= heads; ++i)
    slopes.push_back(
        std::pow(2., -8. * static_cast<double>(2 * i - 1) / static_cast<double>(2 * lower)));
  return slopes;
}

struct AlibiOracle {
  at::Tensor mixed;   // f64 [sequences, seqlen, hidden]
  at::Tensor spread;  // the same of |v|: what a relative error of all shares comes to
  at::Tensor
      scores;  // f64 [sequences, seqlen, hidden]: the largest |bias| + |q . k| scale a query sees
};

// `fused` [sequences, seqlen, 3 hidden], by head q, k, v.
inline AlibiOracle alibi_oracle(const at::Tensor& fused, int64_t heads) {
  const int64_t sequences = fused.size(0), seqlen = fused.size(1);
  const int64_t head_dim = fused.size(2) / (3 * heads);
  const auto parts = fused.to(at::kDouble).view({sequences, seqlen, heads, 3, head_dim});
  const auto options = parts.options();
  const auto positions = at::arange(seqlen, options);
  const auto ahead = positions.unsqueeze(0) > positions.unsqueeze(1);
  const std::vector<double> slopes = published_slopes(heads);
  std::vector<at::Tensor> mixed, spread, largest;
  for (int64_t head = 0; head < heads; ++head) {
    const auto part = [&](int64_t which) { return parts.select(2, head).select(2, which); };
    const auto dots =
        at::matmul(part(0), part(1).transpose(1, 2)) / std::sqrt(static_cast<double>(head_dim));
    const auto bias = slopes[static_cast<size_t>(head)] * positions;
    const auto shares =
        at::softmax((dots + bias).masked_fill(ahead, -std::numeric_limits<double>::infinity()), -1);
    mixed.push_back(at::matmul(shares, part(2)));
    spread.push_back(at::matmul(shares, part(2).abs()));
    largest.push_back((dots.abs() + bias)
                          .masked_fill(ahead, 0)
                          .amax(-1, /*keepdim=*/true)
                          .expand({sequences, seqlen, head_dim}));
  }
  const auto joined = [&](const std::vector<at::Tensor>& of_heads) {
    return at::stack(of_heads, 2).view({sequences, seqlen, heads * head_dim});
  };
  return {joined(mixed), joined(spread), joined(largest)};
}

// Of a number of `dtype`, half of the distance to the next one.
inline double rounding(at::ScalarType dtype) {
  return dtype == at::kHalf ? 0x1p-11 : dtype == at::kBFloat16 ? 0x1p-8 : 0x1p-24;
}

// An element of a fused attention may be so far from the oracle: shares and result are rounded to
// 16 bits, which is as much relative to the spread; scores in f32 are off by some of its steps at
// their size, twice in a share, where the sum of shares is off too; and shares that 16 bits have no
// normal numbers for, beside a largest of 1, are off by a step of the smallest.
inline at::Tensor fused_bound(const AlibiOracle& oracle, const at::Tensor& fused) {
  constexpr double kScoreSteps = 0x1p-21;
  const auto scores = oracle.scores.mul(2 * kScoreSteps);
  const double smallest = fused.scalar_type() == at::kHalf ? 0x1p-25 : 0;
  const double largest_value = fused.abs().max().item<double>();
  return oracle.spread * (scores + 2 * rounding(fused.scalar_type()) + 0x1p-20) +
         smallest * static_cast<double>(fused.size(1)) * largest_value + 0x1p-24;
}

// And one that rounds scores: bias and score, each to 16 bits, in whichever direction.
inline at::Tensor eager_bound(const AlibiOracle& oracle, const at::Tensor& fused) {
  const auto of_scores = oracle.scores * (4 * rounding(fused.scalar_type()));
  return oracle.spread * of_scores.exp().sub(1) + fused_bound(oracle, fused);
}

}  // namespace gptqb::test
