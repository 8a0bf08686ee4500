// The CUDA OBQ held against the CPU's, which tests/methods holds against constrained least squares.
#include <gtest/gtest.h>

#include "methods/obq_fast.h"
#include "tests/support/problems.h"

namespace gptqb::test {
namespace {

ObqProblem make(int64_t rows, int64_t columns, at::ScalarType dtype, bool greedy,
                bool outlier_first) {
  const auto h = hessian_of(calibration_inputs(Inputs::kCorrelated, columns, 61)).to(at::kDouble);
  const auto damped = h + at::eye(columns, at::kDouble) * h.diagonal().mean() * 0.01;
  const auto weights = (normal_matrix(rows, columns, 62) * 0.05).to(dtype);
  const QuantConfig quant{.bits = 3, .group_size = 64, .scale_dtype = ScaleDtype::kFloat32};
  const auto inverse = at::linalg_inv(damped);
  ObqProblem problem;
  problem.layer = "test.layer";
  problem.weights = weights;
  problem.inverse = ((inverse + inverse.t()) / 2).to(dtype).contiguous();
  problem.grids = fit_group_grids(weights, {quant, false});
  problem.group_of_position = at::arange(columns, at::kLong).div(64, "floor").to(at::kInt);
  problem.quant = quant;
  problem.greedy = greedy;
  problem.outlier_first = outlier_first;
  problem.budget = int64_t{1} << 30;
  return problem;
}

ObqProblem on_gpu(ObqProblem problem) {
  problem.weights = problem.weights.cuda();
  problem.inverse = problem.inverse.cuda();
  problem.grids = {problem.grids.scale.cuda(), problem.grids.zero.cuda()};
  problem.group_of_position = problem.group_of_position.cuda();
  return problem;
}

TEST(ObqCuda, TakesTheStepsOfTheCpuInFloat64) {
  for (const int64_t columns : {1, 2, 15, 16, 17, 33, 100, 511, 520})
    for (const bool greedy : {true, false})
      for (const bool outlier_first : {false, true}) {
        SCOPED_TRACE(std::to_string(columns) + " columns");
        const auto problem =
            make(columns > 500 ? 8 : 300, columns, at::kDouble, greedy, outlier_first);
        const auto host = solve_obq_fast(problem);
        const auto device = solve_obq_fast(on_gpu(problem));
        ASSERT_FALSE(host.breakdown || device.breakdown);
        EXPECT_TRUE(at::equal(host.codes, device.codes.cpu()));
        EXPECT_TRUE(at::equal(host.steps, device.steps.cpu()));
        EXPECT_NEAR(device.loss, host.loss, 1e-9 * host.loss);
      }
}

TEST(ObqCuda, ReachesTheLossOfTheCpuInFloat32) {
  const auto problem = make(64, 384, at::kFloat, true, false);
  const auto host = solve_obq_fast(problem);
  const auto device = solve_obq_fast(on_gpu(problem));
  ASSERT_FALSE(host.breakdown || device.breakdown);
  EXPECT_NEAR(device.loss / host.loss, 1, 1e-2);
}

TEST(ObqCuda, GivesTheSameBytesTwiceAndWithLessMemory) {
  auto problem = on_gpu(make(300, 100, at::kFloat, true, false));
  const auto once = solve_obq_fast(problem);
  problem.budget = 600000;  // a dozen rows in flight
  const auto tight = solve_obq_fast(problem);
  EXPECT_TRUE(at::equal(once.codes, tight.codes));
  EXPECT_TRUE(at::equal(once.steps, tight.steps));
  EXPECT_EQ(once.loss, tight.loss);
}

TEST(ObqCuda, ReportsALostPivot) {
  auto problem = make(2, 3, at::kDouble, true, false);
  problem.inverse = at::ones({3, 3}, at::kDouble);
  EXPECT_TRUE(solve_obq_fast(on_gpu(problem)).breakdown.has_value());
}

}  // namespace
}  // namespace gptqb::test
