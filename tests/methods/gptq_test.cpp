// The method `gptq` and the faults of the field catalogue that a solver can have
// (shared/field/faults.md).
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "methods/grid.h"
#include "methods/hessian.h"
#include "tests/support/layers.h"
#include "tests/support/problems.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string error_of(const LinearProblem& problem, const std::string& method = "gptq") {
  try {
    quantize_with(method, problem);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

class BothSolvers : public ::testing::TestWithParam<SolverKind> {
 protected:
  LinearProblem problem_for(const at::Tensor& weight, const CalibrationStats* stats) {
    auto problem = layer_problem(weight, stats);
    problem.method.solver = GetParam();
    return problem;
  }
};
INSTANTIATE_TEST_SUITE_P(All, BothSolvers,
                         ::testing::Values(SolverKind::kFast, SolverKind::kReference),
                         [](const auto& tested) {
                           return tested.param == SolverKind::kFast ? "fast" : "reference";
                         });

// QN-01: three equal tokens, so H has rank 1.
TEST_P(BothSolvers, RankOneHessianRaisesTheDampingOnRecord) {
  const auto row = at::arange(1, 8, at::kFloat);
  const auto stats = stats_of(row.expand({1, 3, 7}));
  auto problem = problem_for(normal_matrix(5, 7, 2).to(at::kFloat), &stats);
  problem.quant.group_size = 4;
  problem.method.damping = 0;
  auto result = quantize_with("gptq", problem);
  EXPECT_EQ(result.health.damping, 0.01);
  EXPECT_EQ(result.health.damping_tries, 2);
  EXPECT_EQ(result.health.status, "ok");
  EXPECT_EQ(result.quantized().scales.sizes(), (std::vector<int64_t>{5, 2}));

  problem.method.on_failure = OnFailure::kError;
  EXPECT_THAT(
      error_of(problem),
      AllOf(StartsWith("[model.layers.3.mlp.down_proj] expected a positive definite Hessian"),
            HasSubstr("fails at input column"), HasSubstr("with damping 0 (1 tried)"),
            HasSubstr("method.damping")));

  problem.method.on_failure = OnFailure::kRtn;  // QN-05: explicit, and marked
  result = quantize_with("gptq", problem);
  EXPECT_THAT(result.health.status, StartsWith("rtn: the factorization fails at input column"));
  EXPECT_TRUE(at::equal(result.quantized().codes, quantize_with("rtn", problem).quantized().codes));

  problem.method.on_failure = OnFailure::kRaiseDamping;
  problem.method.damping = 0.01;
  result = quantize_with("gptq", problem);
  EXPECT_EQ(result.health.damping_tries, 1);
  EXPECT_TRUE(result.quantized().dequantize(at::kFloat).isfinite().all().item<bool>());
}

// QN-02: NaN in, a clear word out, before any factorization and without advice about damping.
TEST_P(BothSolvers, NonFiniteActivationsAreNamed) {
  auto x = normal_matrix(4, 6, 1).to(at::kFloat).unsqueeze(0).clone();
  x[0][2][3] = INFINITY;
  const auto stats = stats_of(x);
  const auto message = error_of(problem_for(normal_matrix(3, 6, 2).to(at::kFloat), &stats));
  EXPECT_THAT(message,
              AllOf(StartsWith("[model.layers.3.mlp.down_proj] expected finite activations"),
                    HasSubstr("1 NaN or infinite"),
                    HasSubstr("the first in calibration window 0, input column 3"),
                    Not(HasSubstr("damping"))));
  // A method that can do without data goes on, and says so.
  const auto rtn = quantize_with("rtn", problem_for(normal_matrix(3, 6, 2).to(at::kFloat), &stats));
  EXPECT_EQ(rtn.health.status, "ok");
  EXPECT_EQ(rtn.health.note,
            "inputs that are not finite, the first in calibration window 0, input column 3");
  const auto huge = stats_of(at::full({1, 2, 6}, 1e30f));
  EXPECT_THAT(error_of(problem_for(at::ones({3, 6}), &huge)),
              AllOf(HasSubstr("fit float32"), HasSubstr("column 0"), Not(HasSubstr("damping"))));
}

// QN-06: GPTQ is not RTN, and what it saw is on record.
TEST_P(BothSolvers, DiffersFromRtnAndRecordsItsData) {
  const auto stats = stats_of(calibration_inputs(Inputs::kCorrelated, 32, 3));
  const auto problem = problem_for(normal_matrix(8, 32, 4).to(at::kFloat), &stats);
  const auto gptq = quantize_with("gptq", problem);
  const auto rtn = quantize_with("rtn", problem);
  EXPECT_FALSE(at::equal(gptq.quantized().codes, rtn.quantized().codes));
  EXPECT_EQ(gptq.health.tokens, stats.tokens());
  EXPECT_EQ(gptq.health.sequences, 4);
  EXPECT_GT(*gptq.health.condition, 1);
  EXPECT_LT(*gptq.health.relative_error, *gptq.health.relative_error_rtn);
  EXPECT_EQ(*gptq.health.relative_error_rtn,
            *rtn.health.relative_error);  // EH-17: RTN has a row too
  EXPECT_LT(*gptq.health.loss, *rtn.health.loss);
  EXPECT_EQ(rtn.health.tokens, stats.tokens());

  const CalibrationStats nothing(32, at::kCPU);
  const auto unseen = quantize_with("gptq", problem_for(problem.weight, &nothing));
  EXPECT_EQ(unseen.health.status, "rtn: no calibration token reached this layer");
  EXPECT_THAT(error_of(problem_for(problem.weight, nullptr)), HasSubstr("statistics, got none"));
}

// QN-08: a column that is never active must not set the row's scale.
TEST_P(BothSolvers, DeadColumnsDoNotSetTheGrid) {
  const auto weight = matrix({{.3f, -.7f, 5, .2f}, {1.1f, .4f, -6, -.9f}});
  auto x = normal_matrix(12, 4, 5).to(at::kFloat).unsqueeze(0).clone();
  x.select(2, 2).zero_();
  const auto stats = stats_of(x);
  const auto live = at::tensor({0, 1, 3}, at::kLong);
  const auto live_stats = stats_of(x.index_select(2, live));
  auto problem = problem_for(weight, &stats);
  // Damping adds a share of the *mean* diagonal, which a dead column changes; without it the
  // problems are the same.
  problem.method.damping = 0;
  auto without = problem_for(weight.index_select(1, live), &live_stats);
  without.method.damping = 0;
  const auto result = quantize_with("gptq", problem);
  const auto expected = quantize_with("gptq", without);
  EXPECT_TRUE(
      at::equal(result.quantized().codes.index_select(1, live), expected.quantized().codes));
  EXPECT_NEAR(result.quantized().scales[0][0].item<float>(), 0.0667, 1e-4);
  EXPECT_NEAR(result.quantized().scales[1][0].item<float>(), 0.1333, 1e-4);
  EXPECT_EQ(result.quantized().dequantize(at::kFloat).select(1, 2).abs().max().item<float>(), 0);
  EXPECT_EQ(result.health.dead_columns, 1);

  problem.compat.reference_dead_columns = true;  // as the published code
  const auto published = quantize_with("gptq", problem);
  EXPECT_NEAR(published.quantized().scales[0][0].item<float>(), 0.38, 1e-4);
  EXPECT_NEAR(published.quantized().scales[1][0].item<float>(), 0.4733, 1e-4);
  EXPECT_EQ(published.quantized().dequantize(at::kFloat).select(1, 2).abs().max().item<float>(), 0);
}

// QN-09: inputs that are all zero must not wipe the weights.
TEST_P(BothSolvers, AllZeroInputsGiveRtn) {
  const auto stats = stats_of(at::zeros({1, 6, 8}));
  const auto problem = problem_for(catalogue_weights(), &stats);
  const auto result = quantize_with("gptq", problem);
  EXPECT_TRUE(at::equal(result.quantized().codes, quantize_with("rtn", problem).quantized().codes));
  EXPECT_EQ(result.health.status, "rtn: every input of this layer was 0 in calibration");
  EXPECT_EQ(result.health.dead_columns, 8);
  EXPECT_GT(result.quantized().dequantize(at::kFloat).abs().sum().item<float>(), 1);
}

// QN-16: with act-order the first grid is that of the columns with the largest diagonal. GG-05: and
// g_idx says so.
TEST_P(BothSolvers, ActOrderGroupsFollowTheDiagonal) {
  const auto diagonal = at::tensor({1., 8., 2., 7., 3., 6., 4., 5.}, at::kDouble);
  const auto stats = stats_of(inputs_with_hessian(at::diag(diagonal)));
  auto problem = problem_for(catalogue_weights(), &stats);
  problem.quant.group_size = 4;
  problem.method.act_order = true;
  const auto result = quantize_with("gptq", problem);
  EXPECT_TRUE(
      at::equal(result.quantized().group_of_input, at::tensor({1, 0, 1, 0, 1, 0, 1, 0}, at::kInt)));
  const GridRule rule{problem.quant, false};
  const auto largest = catalogue_weights().index_select(1, at::tensor({1, 3, 5, 7}, at::kLong));
  EXPECT_TRUE(at::allclose(result.quantized().scales.select(1, 0), fit_grid(largest, rule).scale));

  problem.method.static_groups = true;  // grids in natural order: no index needed
  const auto fixed = quantize_with("gptq", problem);
  EXPECT_FALSE(fixed.quantized().group_of_input.defined());
  EXPECT_TRUE(
      at::allclose(fixed.quantized().scales, fit_group_grids(catalogue_weights(), rule).scale));
}

// Ties of the diagonal keep their natural order.
TEST(Gptq, ActOrderIsStable) {
  const auto h = at::diag(at::tensor({2.f, 3.f, 2.f, 3.f, 2.f}));
  const auto prepared = prepare_hessian(h, 0.01, {.act_order = true});
  EXPECT_TRUE(at::equal(prepared.order, at::tensor({1, 3, 0, 2, 4}, at::kLong)));
}

// A seed draws what Python's random.Random(seed).shuffle(list(range(n))) does (CPython 3.11).
TEST(Gptq, RandomOrderIsPythonsShuffle) {
  const auto order = [](int64_t seed, int64_t columns) {
    return prepare_hessian(at::eye(columns), 0.01,
                           {.order = ColumnOrder::kRandom, .order_seed = seed})
        .order;
  };
  EXPECT_TRUE(at::equal(order(0, 8), at::tensor({4, 1, 5, 2, 0, 3, 7, 6}, at::kLong)));
  EXPECT_TRUE(
      at::equal(order(5, 12), at::tensor({10, 2, 11, 7, 1, 3, 6, 0, 8, 5, 4, 9}, at::kLong)));
}

// Sweeping from the right is sweeping the mirrored layer from the left, groups and all.
TEST_P(BothSolvers, ReverseOrderIsTheMirroredLayer) {
  const auto x = calibration_inputs(Inputs::kCorrelated, 24, 3);
  const auto stats = stats_of(x);
  const auto mirrored_stats = stats_of(x.flip(2).contiguous());
  const auto weight = normal_matrix(6, 24, 4).to(at::kFloat);
  for (const int64_t group_size : {-1, 8}) {
    auto reversed = problem_for(weight, &stats);
    reversed.quant.group_size = group_size;
    reversed.method.order = ColumnOrder::kReverse;
    auto mirrored = problem_for(weight.flip(1).contiguous(), &mirrored_stats);
    mirrored.quant.group_size = group_size;
    const auto result = quantize_with("gptq", reversed).quantized();
    const auto expected = quantize_with("gptq", mirrored).quantized();
    EXPECT_TRUE(at::equal(result.codes.flip(1), expected.codes)) << group_size;
    EXPECT_TRUE(at::equal(result.dequantize(at::kFloat).flip(1), expected.dequantize(at::kFloat)));
    EXPECT_EQ(result.group_of_input.defined(), group_size > 0);
    if (group_size > 0) {
      EXPECT_EQ(result.group_of_input[0].item<int64_t>(), 2);  // leftmost, so in the last group
    }
    result.validate("layer");
  }
}

// Only obq can let each row choose its own order.
TEST(Gptq, RefusesTheGreedyOrder) {
  const auto stats = stats_of(at::eye(8).unsqueeze(0));
  auto problem = layer_problem(catalogue_weights(), &stats);
  problem.method.order = ColumnOrder::kGreedy;
  EXPECT_THAT(error_of(problem), HasSubstr("method.order greedy, which only obq has"));
}

// QN-19: the catalogue's numbers for both methods.
TEST_P(BothSolvers, CatalogueErrors) {
  const auto h = catalogue_hessian();
  const auto stats = stats_of(inputs_with_hessian(h));
  auto problem = problem_for(catalogue_weights(), &stats);
  problem.quant.bits = 2;
  const auto trace = [&](const char* method) {
    const auto e = catalogue_weights().to(at::kDouble) -
                   quantize_with(method, problem).quantized().dequantize(at::kDouble);
    return (at::mm(e, h) * e).sum().item<double>();
  };
  EXPECT_NEAR(trace("gptq"), 0.528, 5e-4);
  EXPECT_NEAR(trace("rtn"), 0.866, 5e-4);
}

// GG-04: fresh grids, and the published code's.
TEST_P(BothSolvers, CatalogueCodesForFreshAndStaleGrids) {
  const auto stats = stats_of(inputs_with_hessian(catalogue_hessian()));
  auto problem = problem_for(catalogue_weights(), &stats);
  problem.quant.bits = 2;
  problem.quant.group_size = 2;
  problem.method.block_size = 8;
  EXPECT_EQ(codes_text(quantize_with("gptq", problem).quantized()),
            "03000310 / 30303003 / 30233030 / 30030303");
  problem.compat.reference_group_grid = true;
  EXPECT_EQ(codes_text(quantize_with("gptq", problem).quantized()),
            "03000311 / 30313013 / 30233020 / 30030303");
}

// GG-03: the processing block changes nothing. GG-02: -1 and the number of columns are the same
// grouping.
TEST_P(BothSolvers, BlockSizeChangesNothing) {
  const auto stats = stats_of(calibration_inputs(Inputs::kCorrelated, 12, 6));
  auto problem = problem_for(normal_matrix(3, 12, 7).to(at::kFloat), &stats);
  for (const int64_t group_size : {-1, 12, 8, 6}) {
    problem.quant.group_size = group_size;
    problem.method.block_size = 12;
    const auto whole = quantize_with("gptq", problem);
    problem.method.block_size = 4;
    const auto blocks = quantize_with("gptq", problem);
    EXPECT_TRUE(at::equal(whole.quantized().codes, blocks.quantized().codes)) << group_size;
    EXPECT_TRUE(at::allclose(whole.quantized().scales, blocks.quantized().scales)) << group_size;
    EXPECT_EQ(blocks.quantized().group_size, group_size);
    EXPECT_EQ(blocks.quantized().groups(), group_size < 12 && group_size > 0 ? 2 : 1);
  }
}

// QN-10 and GG-01 in the sweep.
TEST_P(BothSolvers, ZeroGroupsAndShortGroups) {
  auto weight = normal_matrix(2, 11, 8).to(at::kFloat);
  weight.narrow(1, 4, 4).zero_();
  const auto stats = stats_of(at::eye(11).unsqueeze(0));  // uncorrelated: nothing moves the zeros
  auto problem = problem_for(weight, &stats);
  problem.quant.group_size = 4;
  problem.quant.scale_dtype = ScaleDtype::kFloat16;
  for (const bool symmetric : {false, true}) {
    problem.quant.symmetric = symmetric;
    const auto result = quantize_with("gptq", problem);
    EXPECT_EQ(result.quantized().dequantize(at::kFloat).narrow(1, 4, 4).abs().max().item<float>(),
              0);
    EXPECT_EQ(result.quantized().groups(), 3);
    EXPECT_TRUE(std::isfinite(*result.health.loss));
  }
}

// Scales are float16 before the sweep: the stored scales are the ones the codes were found with.
TEST_P(BothSolvers, Float16ScalesAreRoundedBeforeTheSweep) {
  const auto stats = stats_of(calibration_inputs(Inputs::kCorrelated, 24, 9));
  auto problem = problem_for(normal_matrix(6, 24, 10).to(at::kFloat), &stats);
  problem.quant.group_size = 8;
  problem.quant.scale_dtype = ScaleDtype::kFloat16;
  const auto result = quantize_with("gptq", problem);
  EXPECT_TRUE(
      at::equal(result.quantized().scales, result.quantized().scales.to(at::kHalf).to(at::kFloat)));
  const auto e = problem.weight.to(at::kDouble) - result.quantized().dequantize(at::kDouble);
  const auto damped =
      prepare_hessian(stats.hessian(), 0.01, {.compute = ComputeDtype::kFloat64}).matrix;
  EXPECT_NEAR(*result.health.loss / (0.5 * (at::mm(e, damped) * e).sum().item<double>()), 1, 1e-6);
}

// relative_error by hand: E H E^T over W H W^T.
TEST(LayerErrors, RelativeErrorByHand) {
  CalibrationStats stats(2, at::kCPU);
  stats.add(matrix({{1, 0}, {0, 2}}).unsqueeze(0));  // H = diag(2, 8)
  QuantizedLinear quantized;
  quantized.codes = at::tensor({1, 3}, at::kByte).reshape({1, 2});
  quantized.scales = at::ones({1, 1});
  quantized.zeros = at::zeros({1, 1}, at::kByte);
  // W = (1.5, 2), Q = (1, 3): E = (0.5, -1): (0.25 * 2 + 8) / (2.25 * 2 + 4 * 8)
  EXPECT_NEAR(*relative_error(matrix({{1.5f, 2}}), quantized, stats), 8.5 / 36.5, 1e-7);
  EXPECT_FALSE(relative_error(at::zeros({1, 2}), quantized, stats).has_value());
}

TEST(LayerErrors, HeldOutWindowsHaveTheirOwnError) {
  const auto stats = stats_of(calibration_inputs(Inputs::kIllConditioned, 40, 1));
  const auto heldout = stats_of(calibration_inputs(Inputs::kCorrelated, 40, 99));
  auto problem = layer_problem(normal_matrix(8, 40, 3).to(at::kFloat), &stats);
  EXPECT_FALSE(quantize_with("gptq", problem).health.relative_error_heldout.has_value());
  problem.heldout = &heldout;
  const auto result = quantize_with("gptq", problem);
  EXPECT_NEAR(*result.health.relative_error_heldout,
              *relative_error(problem.weight, result.quantized(), heldout), 1e-12);
  EXPECT_NE(*result.health.relative_error_heldout, *result.health.relative_error);
}

TEST(Layers, DamagedWeightsAreNamed) {
  auto weight = catalogue_weights();
  weight[2][5] = NAN;
  const auto stats = stats_of(at::eye(8).unsqueeze(0));
  for (const char* method : {"rtn", "gptq"})
    EXPECT_THAT(error_of(layer_problem(weight, &stats), method),
                AllOf(HasSubstr("[model.layers.3.mlp.down_proj] expected finite weights"),
                      HasSubstr("row 2, column 5")));
  const auto narrow = stats_of(at::eye(7).unsqueeze(0));
  EXPECT_THAT(error_of(layer_problem(catalogue_weights(), &narrow)),
              HasSubstr("statistics of 8 input columns, got 7"));
}

TEST(Rtn, IgnoresGroupsOnlyAsThePublishedCode) {
  auto problem = layer_problem(catalogue_weights(), nullptr);
  problem.quant.group_size = 2;
  EXPECT_EQ(quantize_with("rtn", problem).quantized().groups(), 4);
  problem.compat.reference_rtn_groups = true;
  const auto result = quantize_with("rtn", problem);
  EXPECT_EQ(result.quantized().groups(), 1);
  EXPECT_EQ(result.health.group_size, -1);
  EXPECT_FALSE(result.health.relative_error.has_value());
}

// Layers of a stage share one factorization, and its record.
TEST(FactorCache, ServesTheNextLinearOfAStage) {
  const auto stats = stats_of(at::ones({1, 3, 8}));
  FactorCache cache;
  auto problem = layer_problem(catalogue_weights(), &stats);
  problem.method.damping = 0;
  problem.factors = &cache;
  const auto first = quantize_with("gptq", problem);
  const auto* outcome = cache.find(FactorCache::key(problem.method));
  ASSERT_NE(outcome, nullptr);
  const auto* factor = outcome->factor.get();
  const auto second = quantize_with("gptq", problem);
  EXPECT_EQ(cache.find(FactorCache::key(problem.method))->factor.get(), factor);
  EXPECT_EQ(second.health.damping_tries, first.health.damping_tries);
  EXPECT_TRUE(at::equal(first.quantized().codes, second.quantized().codes));
  problem.factors = nullptr;
  EXPECT_TRUE(at::equal(quantize_with("gptq", problem).quantized().codes, first.quantized().codes));
}

// QN-18: the same codes whatever the number of threads.
TEST(Gptq, ThreadsDoNotChangeTheSweep) {
  const auto stats = stats_of(calibration_inputs(Inputs::kCorrelated, 96, 3));
  auto problem = layer_problem(normal_matrix(300, 96, 4).to(at::kFloat), &stats);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = quantize_with("gptq", problem);
  at::set_num_threads(2);
  const auto two = quantize_with("gptq", problem);
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(one.quantized().codes, two.quantized().codes));
}

// Half-precision weights quantize on the CPU (BI-08).
TEST(Gptq, TakesHalfPrecisionWeights) {
  const auto stats = stats_of(calibration_inputs(Inputs::kRandom, 32, 3).to(at::kHalf));
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    auto problem = layer_problem(normal_matrix(8, 32, 4).to(dtype), &stats);
    problem.method.compute = ComputeDtype::kFloat32;
    EXPECT_LT(*quantize_with("gptq", problem).health.relative_error, 0.05);
  }
}

}  // namespace
}  // namespace gptqb::test
