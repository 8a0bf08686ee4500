#include "methods/awq.h"

#include <algorithm>
#include <limits>

namespace gptqb {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Single products of weights and inputs held at once: what keeps a GPU busy, or stays in a cache.
constexpr int64_t kProductsOnCuda = int64_t{1} << 26;
constexpr int64_t kProductsOnCpu = int64_t{1} << 19;

// Weights [rows, groups, width] on the grids of their groups.
at::Tensor round_groups(const at::Tensor& groups, const GridRule& rule) {
  const auto grid = fit_grid(groups, rule);
  const auto scale = grid.scale.unsqueeze(-1);
  const auto zero = grid.zero.unsqueeze(-1);
  return dequantize_values(quantize_values(groups, scale, zero, rule.quant), scale, zero,
                           rule.quant);
}

// Calls `action(part)` for the whole groups of `weights` as [rows, groups, width], and for a short
// last group; puts the answers back together.
template <class Action>
at::Tensor by_group(const at::Tensor& weights, const GridRule& rule, Action&& action) {
  const int64_t rows = weights.size(0);
  const int64_t columns = weights.size(1);
  const int64_t width = rule.quant.columns_per_group(columns);
  const int64_t whole = columns / width * width;
  const auto part = [&](int64_t begin, int64_t count, int64_t group_width) {
    const auto view =
        weights.narrow(1, begin, count).reshape({rows, count / group_width, group_width});
    return action(view, begin).reshape({rows, count});
  };
  const auto head = part(0, whole, width);
  if (whole == columns) return head;
  return at::cat({head, part(whole, columns - whole, columns - whole)}, 1);
}

// The diagonal blocks [groups, width, width] of `moments` from column `begin` on.
at::Tensor diagonal_blocks(const at::Tensor& moments, int64_t begin, int64_t groups,
                           int64_t width) {
  std::vector<at::Tensor> blocks;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t at = begin + g * width;
    blocks.push_back(moments.narrow(0, at, width).narrow(1, at, width));
  }
  return at::stack(blocks);
}

// `groups` [rows, groups, width], each clamped to the first candidate with the least
// `error(rounded)` [rows, groups, 1].
template <class Error>
at::Tensor clip_groups(const at::Tensor& groups, const GridRule& rule, int64_t steps, double shrink,
                       Error&& error_of) {
  const auto candidates = static_cast<int64_t>(shrink * static_cast<double>(steps));
  const auto largest = groups.abs().amax(-1, /*keepdim=*/true);
  auto best = largest;
  at::Tensor smallest;
  for (int64_t i = 0; i < candidates; ++i) {
    const auto limit = largest * (1.0 - static_cast<double>(i) / static_cast<double>(steps));
    const auto clamped = at::minimum(at::maximum(groups, -limit), limit);
    const auto error = error_of(round_groups(clamped, rule));
    if (!smallest.defined()) smallest = at::full_like(error, kNever);
    const auto better = error < smallest;
    smallest = at::where(better, error, smallest);
    best = at::where(better, limit, best);
  }
  return at::minimum(at::maximum(groups, -best), best);
}

}  // namespace

at::Tensor awq_scales(const at::Tensor& mean_abs, double alpha) {
  const auto scales = mean_abs.pow(alpha).clamp_min(1e-4);
  return scales / (scales.max() * scales.min()).sqrt();
}

at::Tensor round_scaled(const at::Tensor& weights, const at::Tensor& scales, const GridRule& rule) {
  const auto factors = scales.to(weights.scalar_type()).unsqueeze(0);
  const auto scaled = weights * factors;
  return by_group(scaled, rule,
                  [&](const at::Tensor& groups, int64_t) { return round_groups(groups, rule); })
      .div_(factors);
}

at::Tensor clip_weights(const at::Tensor& weights, const at::Tensor& moments, const GridRule& rule,
                        int64_t steps, double shrink) {
  return by_group(weights, rule, [&](const at::Tensor& groups, int64_t begin) {
    const auto blocks = diagonal_blocks(moments, begin, groups.size(1), groups.size(2));
    return clip_groups(groups, rule, steps, shrink, [&](const at::Tensor& rounded) {
      const auto e = (rounded - groups).to(at::kFloat).transpose(0, 1);
      return (at::bmm(e, blocks) * e).sum(-1).transpose(0, 1).unsqueeze(-1);
    });
  });
}

at::Tensor clip_weights_on(const at::Tensor& weights, const at::Tensor& inputs,
                           const GridRule& rule, int64_t steps, double shrink) {
  const int64_t products = weights.is_cuda() ? kProductsOnCuda : kProductsOnCpu;
  const int64_t rows = std::max<int64_t>(1, products / std::max<int64_t>(1, inputs.numel()));
  return by_group(weights, rule, [&](const at::Tensor& groups, int64_t begin) {
    const int64_t columns = groups.size(1) * groups.size(2);
    const auto x = inputs.narrow(1, begin, columns)
                       .reshape({1, inputs.size(0), groups.size(1), groups.size(2)});
    const auto outputs = [&](const at::Tensor& w) { return (x * w.unsqueeze(1)).sum(-1); };
    std::vector<at::Tensor> parts;
    for (const auto& part : groups.split(rows)) {
      const auto wanted = outputs(part);
      parts.push_back(clip_groups(part, rule, steps, shrink, [&](const at::Tensor& rounded) {
        return (outputs(rounded) - wanted).square().mean(1).unsqueeze(-1);
      }));
    }
    return at::cat(parts);
  });
}

}  // namespace gptqb
