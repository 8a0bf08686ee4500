// The solver before the paper's third step: the codes of Algorithm 1 in exact arithmetic, and what
// happens where its inverse breaks down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "methods/gptq_inverse_updates.h"
#include "methods/obq_problem.h"
#include "methods/quadratic_form.h"
#include "tests/support/layers.h"
#include "tests/support/message.h"
#include "tests/support/oracle.h"
#include "tests/support/problems.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<double> to_doubles(const at::Tensor& tensor) {
  const auto flat = tensor.to(at::kDouble).contiguous().reshape({-1});
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

struct Setting {
  Inputs inputs = Inputs::kCorrelated;
  int64_t columns = 97;
  int64_t group_size = -1;
  int64_t block_size = 32;
  bool act_order = false;
  bool static_groups = false;
  bool stale = false;
};

SweepProblem problem_of(const Setting& setting, const at::Tensor& weights) {
  MethodConfig method;
  method.block_size = setting.block_size;
  method.act_order = setting.act_order;
  method.static_groups = setting.static_groups;
  method.compute = ComputeDtype::kFloat64;
  CompatPolicy compat;
  compat.reference_group_grid = setting.stale;
  return {
      .layer = "test.layer",
      .weights = weights,
      .rule = {{.bits = 3, .group_size = setting.group_size, .scale_dtype = ScaleDtype::kFloat32}},
      .method = method,
      .compat = compat};
}

// The oracle works in long double, without any blocks: fed these codes, it must round every value
// the same way.
TEST(InverseUpdates, GiveTheOraclesCodesInFloat64) {
  for (const auto& setting :
       std::vector<Setting>{{.block_size = 1},
                            {.block_size = 32},
                            {.block_size = 128},
                            {.group_size = 8, .block_size = 33},
                            {.group_size = 40, .block_size = 16},
                            {.group_size = 8, .block_size = 33, .stale = true},
                            {.group_size = 16, .act_order = true},
                            {.group_size = 16, .act_order = true, .static_groups = true},
                            {.inputs = Inputs::kIllConditioned},
                            {.inputs = Inputs::kDead, .group_size = 32, .block_size = 20}}) {
    SCOPED_TRACE("groups of " + std::to_string(setting.group_size) + ", blocks of " +
                 std::to_string(setting.block_size) + ", " + inputs_name(setting.inputs));
    const auto h = hessian_of(calibration_inputs(setting.inputs, setting.columns, 31));
    const auto problem = problem_of(setting, normal_matrix(6, setting.columns, 32) * 0.05);
    const auto prepared = prepare_hessian(h, problem.method.damping, problem.method);
    FactorFailure failure;
    const auto factor =
        factorize_inverse(prepare_hessian(h, problem.method.damping, problem.method), failure);
    ASSERT_TRUE(factor);
    const auto solved = sweep_inverse_updates(problem, *factor);
    ASSERT_FALSE(solved.lost_pivot);

    const auto ordered = order_problem(problem, prepared);
    const auto& quantized = solved.quantized;
    OracleProblem oracle;
    oracle.rows = 6;
    oracle.columns = setting.columns;
    oracle.weights = to_doubles(ordered.weights);
    oracle.hessian = to_doubles(prepared.matrix);
    oracle.max_code = 7;
    oracle.width = ordered.width;
    oracle.stale_block = setting.stale ? setting.block_size : 0;
    Decisions decisions;
    const auto codes = prepared.order.defined() ? quantized.codes.index_select(1, prepared.order)
                                                : quantized.codes;
    for (const double code : to_doubles(codes)) decisions.codes.push_back(static_cast<int>(code));
    decisions.scales = to_doubles(quantized.scales);
    decisions.zeros = to_doubles(quantized.zeros);
    if (!setting.static_groups) {  // the oracle fits groups along the sweep
      const auto comparison =
          compare_with_oracle(oracle, decisions, [](double reach) { return 1e-9 * (1 + reach); });
      EXPECT_EQ(comparison.differ, 0);
      EXPECT_LT(comparison.largest_scale_error, 1e-6);
    }
    auto e =
        ordered.weights - (prepared.order.defined()
                               ? quantized.dequantize(at::kDouble).index_select(1, prepared.order)
                               : quantized.dequantize(at::kDouble));
    EXPECT_NEAR(solved.loss / (0.5 * quadratic_form(e, prepared.matrix)), 1, 1e-5);
  }
}

TEST(InverseUpdates, AreASolverOfGptqWithTheCodesOfTheOthers) {
  const auto stats = stats_of(calibration_inputs(Inputs::kCorrelated, 64, 33));
  auto problem = layer_problem(normal_matrix(8, 64, 34).to(at::kFloat), &stats);
  problem.quant.group_size = 16;
  const auto fast = quantize_with("gptq", problem);
  problem.method.solver = SolverKind::kInverseUpdates;
  for (const int64_t block_size : {1, 16, 24, 512}) {
    problem.method.block_size = block_size;
    const auto updated = quantize_with("gptq", problem);
    EXPECT_TRUE(at::equal(updated.quantized().codes, fast.quantized().codes)) << block_size;
    EXPECT_NEAR(*updated.health.loss / *fast.health.loss, 1, 1e-9);
    EXPECT_NEAR(*updated.health.condition / *fast.health.condition, 1, 1e-9);
  }
}

// The first pivot is that of H^-1 itself, each later one that of the columns left.
TEST(InverseUpdates, PivotsAreThoseOfTheColumnsLeft) {
  Setting setting{.columns = 40, .block_size = 7};
  const auto problem = problem_of(setting, normal_matrix(2, 40, 35));
  const auto prepared = prepare_hessian(hessian_of(calibration_inputs(Inputs::kCorrelated, 40, 36)),
                                        0.01, problem.method);
  FactorFailure failure;
  auto used = prepared;  // the factorization works in its memory
  used.matrix = prepared.matrix.clone();
  const auto solved = sweep_inverse_updates(problem, *factorize_inverse(std::move(used), failure));
  for (const int64_t i : {0, 1, 6, 7, 20, 39}) {
    const auto left = prepared.matrix.slice(0, i).slice(1, i);
    EXPECT_NEAR(solved.pivots[i].item<double>() / at::inverse(left)[0][0].item<double>(), 1, 1e-9)
        << i;
  }
}

// An inverse that is not one of a positive definite matrix: column 2 is -1 once columns 0 and 1
// are gone.
TEST(InverseUpdates, ANonPositiveDiagonalEndsTheSweepWhereItIsFound) {
  for (const int64_t block_size : {1, 2, 4}) {
    Setting setting{.columns = 4, .block_size = block_size};
    const auto problem = problem_of(setting, normal_matrix(2, 4, 37));
    Factor factor;
    factor.triangle = at::eye(4, at::kDouble);
    factor.triangle[0][2] = factor.triangle[2][0] = 1;
    factor.triangle[1][2] = factor.triangle[2][1] = 1;
    factor.prepared.dead = at::zeros({4}, at::kBool);
    const auto solved = sweep_inverse_updates(problem, factor);
    ASSERT_TRUE(solved.lost_pivot) << block_size;
    EXPECT_EQ(*solved.lost_pivot, 2);
    EXPECT_EQ(solved.pivots[1].item<double>(), 1);
    EXPECT_NEAR(solved.pivots[2].item<double>(), -1, 1e-12);
  }
}

// Energy that falls off like that of real layers, and next to no damping: where Algorithm 1 in
// float32 still has its factor, the inverses of blocks have spoiled the updated one.
TEST(InverseUpdates, ABreakdownIsAFailureByPolicy) {
  const int64_t n = 256;
  const auto sizes = at::arange(1, n + 1, at::kDouble).rsqrt();
  const auto x = at::mm(normal_matrix(2 * n, n, 38) * sizes, normal_matrix(n, n, 39) / 16);
  const auto stats = stats_of(x.to(at::kFloat).unsqueeze(0));
  auto problem = layer_problem(normal_matrix(4, n, 40).to(at::kFloat), &stats);
  problem.method.compute = ComputeDtype::kFloat32;
  problem.method.damping = 1e-7;
  problem.method.on_failure = OnFailure::kError;
  for (const auto solver : {SolverKind::kReference, SolverKind::kFast}) {
    problem.method.solver = solver;
    EXPECT_EQ(quantize_with("gptq", problem).health.status, "ok");
  }
  problem.method.solver = SolverKind::kInverseUpdates;
  EXPECT_THAT(
      message_of([&] { quantize_with("gptq", problem); }),
      AllOf(HasSubstr("[model.layers.3.mlp.down_proj] expected a positive definite Hessian"),
            HasSubstr("the updated inverse loses its pivot at input column"),
            HasSubstr("with damping 1e-07 (1 tried)")));
  problem.method.on_failure = OnFailure::kRtn;
  EXPECT_THAT(quantize_with("gptq", problem).health.status,
              HasSubstr("rtn: the updated inverse loses its pivot at input column"));
  problem.method.on_failure = OnFailure::kRaiseDamping;
  const auto raised = quantize_with("gptq", problem);
  EXPECT_EQ(raised.health.damping, 0.01);
  EXPECT_EQ(raised.health.damping_tries, 2);
  EXPECT_EQ(raised.health.status, "ok");
}

}  // namespace
}  // namespace gptqb::test
