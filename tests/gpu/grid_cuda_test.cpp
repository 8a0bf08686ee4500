// Grids fitted by one kernel held against those fitted step by step, which tests/methods holds
// against the protocol.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "methods/grid.h"

namespace gptqb {
namespace {

struct Case {
  std::string name;
  GridRule rule;
};

std::vector<Case> rules() {
  std::vector<Case> cases;
  for (const int64_t bits : {2, 3, 4, 8})
    for (const bool symmetric : {false, true})
      for (const bool half : {false, true}) {
        GridRule rule;
        rule.quant.bits = bits;
        rule.quant.symmetric = symmetric;
        rule.quant.scale_dtype = half ? ScaleDtype::kFloat16 : ScaleDtype::kFloat32;
        cases.push_back(
            {std::to_string(bits) + (symmetric ? " sym" : "") + (half ? " half" : ""), rule});
        rule.one_sided = true;
        if (symmetric) cases.push_back({cases.back().name + " one-sided", rule});
        rule.one_sided = false;
        rule.include_zero = false;
        if (!symmetric) cases.push_back({cases.back().name + " without zero", rule});
      }
  GridRule ternary;
  ternary.quant.bits = QuantConfig::kTernary;
  cases.push_back({"ternary", ternary});
  return cases;
}

// Heavy tails, an offset, vectors of one sign, of zeros, of one value.
at::Tensor weights(int64_t vectors, int64_t columns) {
  at::manual_seed(vectors * 1000 + columns);
  auto w = at::randn({vectors, columns}) * 0.02 + 0.003;
  w.select(1, 0).mul_(8);
  if (vectors > 8) {
    w[1].abs_();
    w[2].abs_().neg_();
    w[3].zero_();
    w[4].fill_(0.25);
  }
  return w;
}

GridRule step_by_step(GridRule rule) {
  rule.step_by_step = true;
  return rule;
}

TEST(GridCuda, FitsTheSameGridsInEveryLayout) {
  for (const Case& one : rules())
    for (const int64_t vectors : {1, 31, 32, 33, 100})
      for (const int64_t columns : {1, 2, 63, 64, 65, 128, 700}) {
        const auto w = weights(vectors, columns);
        const auto expected = fit_grid(w, one.rule);
        const auto by_column = w.t().contiguous().cuda().t();
        for (const auto& on_gpu : {w.cuda(), by_column}) {
          const auto grid = fit_grid(on_gpu, one.rule);
          ASSERT_TRUE(at::equal(grid.scale.cpu(), expected.scale))
              << one.name << " " << vectors << " x " << columns;
          ASSERT_TRUE(at::equal(grid.zero.cpu(), expected.zero))
              << one.name << " " << vectors << " x " << columns;
        }
      }
}

TEST(GridCuda, FitsEachVectorOfMoreDimensions) {
  GridRule rule;
  const auto w = weights(60, 32).view({12, 5, 32});
  const auto expected = fit_grid(w, rule);
  const auto grid = fit_grid(w.cuda(), rule);
  EXPECT_EQ(grid.scale.sizes(), expected.scale.sizes());
  EXPECT_TRUE(at::equal(grid.scale.cpu(), expected.scale));
  EXPECT_TRUE(at::equal(grid.zero.cpu(), expected.zero));
}

// The error the search minimizes, in f64.
at::Tensor search_error(const at::Tensor& w, const Grid& grid, const QuantConfig& quant) {
  const auto scale = grid.scale.cpu().unsqueeze(-1);
  const auto zero = grid.zero.cpu().unsqueeze(-1);
  const auto q = dequantize_values(quantize_values(w, scale, zero, quant.max_code()), scale, zero);
  return (q - w).to(at::kDouble).abs().pow(quant.grid_norm).sum(-1);
}

TEST(GridCuda, SearchFindsTheSmallestError) {
  for (Case one : rules()) {
    if (one.rule.quant.ternary()) continue;
    one.rule.quant.grid_search = GridSearch::kMse;
    for (const int64_t columns : {1, 16, 64, 129, 576}) {
      const auto w = weights(70, columns);
      const auto expected = search_error(w, fit_grid(w, one.rule), one.rule.quant);
      for (const auto& on_gpu : {w.cuda(), w.t().contiguous().cuda().t()}) {
        const auto grid = fit_grid(on_gpu, one.rule);
        const auto error = search_error(w, grid, one.rule.quant);
        // Of two candidates within rounding of each other either may be taken.
        EXPECT_TRUE(at::allclose(error, expected, 1e-5, 1e-12)) << one.name << " " << columns;
        const auto by_steps = fit_grid(on_gpu, step_by_step(one.rule));
        const double same =
            at::logical_and(grid.scale == by_steps.scale, grid.zero == by_steps.zero)
                .to(at::kDouble)
                .mean()
                .item<double>();
        EXPECT_GT(same, 0.95) << one.name << " " << columns;
      }
    }
  }
}

TEST(GridCuda, SearchTriesMoreCandidatesThanFitOnePass) {
  GridRule rule;
  rule.quant.grid_search = GridSearch::kMse;
  rule.quant.grid_steps = 500;
  const auto w = weights(40, 64);
  const auto error = search_error(w, fit_grid(w.cuda(), rule), rule.quant);
  EXPECT_TRUE(at::allclose(error, search_error(w, fit_grid(w, rule), rule.quant), 1e-5, 1e-12));
}

}  // namespace
}  // namespace gptqb
