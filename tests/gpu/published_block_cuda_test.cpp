// The published algorithm's blocks in one kernel against its steps in tensor operations on the same
// GPU: the same bits, whatever the settings.
#include <gtest/gtest.h>

#include "methods/gptq_reference.h"
#include "methods/published_block.h"

namespace gptqb {
namespace {

struct Settings {
  int64_t bits, group_size;
  bool symmetric, static_groups, act_order;
};

SweepProblem problem_of(const Settings& settings, int64_t rows, int64_t columns) {
  SweepProblem problem{.layer = "test",
                       .weights = at::randn({rows, columns}).mul_(0.03).cuda(),
                       .rule = {.quant = {.bits = settings.bits,
                                          .group_size = settings.group_size,
                                          .symmetric = settings.symmetric}},
                       .method = {},
                       .compat = {}};
  problem.rule.step_by_step = true;
  problem.compat.reference_group_grid = true;
  problem.method.static_groups = settings.static_groups;
  problem.method.order = settings.act_order ? ColumnOrder::kAct : ColumnOrder::kNatural;
  return problem;
}

at::Tensor hessian(int64_t columns) {
  const auto sizes = at::randn({columns}).exp_();
  const auto x = (at::randn({2 * columns, columns}) + at::randn({2 * columns, 1})) * sizes;
  return at::mm(x.t(), x).cuda();
}

void expect_the_bits_of_the_steps(const Settings& settings, int64_t rows, int64_t columns) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + ", " +
               std::to_string(settings.bits) + " bits, groups of " +
               std::to_string(settings.group_size));
  const auto problem = problem_of(settings, rows, columns);
  FactorFailure failure;
  const auto factor =
      factorize_reference(prepare_hessian(hessian(columns), 0.01, problem.method), failure);
  ASSERT_TRUE(factor);
  ASSERT_TRUE(can_solve_published_blocks(problem, order_problem(problem, factor->prepared)));
  const auto steps = sweep_reference(problem, *factor, /*step_by_step=*/true);
  const auto fused = sweep_reference(problem, *factor);
  EXPECT_TRUE(at::equal(fused.quantized.codes, steps.quantized.codes));
  EXPECT_TRUE(at::equal(fused.quantized.scales, steps.quantized.scales));
  EXPECT_TRUE(at::equal(fused.quantized.zeros, steps.quantized.zeros));
  EXPECT_EQ(fused.loss, steps.loss);
}

TEST(PublishedBlockCuda, GivesTheBitsOfTheSteps) {
  at::manual_seed(21);
  for (const int64_t columns : {1, 100, 300})
    for (const int64_t rows : {1, 70})
      for (const Settings& settings :
           {Settings{4, -1, false, false, false}, Settings{3, 64, false, false, false},
            Settings{2, 48, false, false, false}, Settings{8, 128, true, false, false},
            Settings{4, 32, true, true, true}, Settings{3, -1, false, false, true}})
        expect_the_bits_of_the_steps(settings, rows, columns);
}

// Few enough columns for compute-sanitizer, which is slow on the steps' many kernels.
TEST(PublishedBlockCuda, TakesOddShapes) {
  at::manual_seed(22);
  expect_the_bits_of_the_steps({3, 16, false, false, false}, 9, 33);
  expect_the_bits_of_the_steps({4, 32, true, true, true}, 70, 21);
  expect_the_bits_of_the_steps({2, -1, false, false, false}, 5, 131);
}

}  // namespace
}  // namespace gptqb
