// The two GPTQ solvers against each other and against a slow oracle of a different derivation.
#include <gtest/gtest.h>

#include "tests/support/fed_oracle.h"
#include "tests/support/oracle.h"
#include "tests/support/problems.h"
#include "tests/support/solve.h"

namespace gptqb::test {
namespace {

PreparedHessian prepared_in_float64(const SweepProblem& problem, const at::Tensor& h) {
  auto method = problem.method;
  method.compute = ComputeDtype::kFloat64;
  return prepare_hessian(h, method.damping, method);
}

SweepProblem make_problem(const at::Tensor& weights, QuantConfig quant, MethodConfig method,
                          CompatPolicy compat = {}) {
  quant.scale_dtype = ScaleDtype::kFloat32;
  return {.layer = "test.layer",
          .weights = weights.to(scalar_type(method.compute)),
          .rule = {quant, compat.reference_one_sided},
          .method = method,
          .compat = compat};
}

int64_t codes_that_differ(const QuantizedLinear& a, const QuantizedLinear& b) {
  return (a.codes != b.codes).sum().item<int64_t>();
}

std::vector<double> to_doubles(const at::Tensor& tensor) {
  const auto flat = tensor.to(at::kDouble).contiguous().reshape({-1});
  const auto* data = flat.const_data_ptr<double>();
  return {data, data + flat.numel()};
}

// The problem as the oracle takes it, and what `solved` decided, both in sweep order.
std::pair<OracleProblem, Decisions> for_oracle(const SweepProblem& problem, const at::Tensor& h,
                                               const Solved& solved) {
  const auto prepared = prepared_in_float64(problem, h);
  const auto ordered = order_problem(problem, prepared);
  const auto& quantized = solved.result.quantized;
  OracleProblem oracle;
  oracle.rows = problem.weights.size(0);
  oracle.columns = problem.weights.size(1);
  oracle.weights = to_doubles(ordered.weights);
  oracle.hessian = to_doubles(prepared.matrix);
  oracle.max_code = problem.rule.quant.max_code();
  oracle.symmetric = problem.rule.quant.symmetric;
  oracle.width = ordered.width;
  oracle.stale_block = problem.compat.reference_group_grid ? problem.method.block_size : 0;
  Decisions decisions;
  const auto codes =
      prepared.order.defined() ? quantized.codes.index_select(1, prepared.order) : quantized.codes;
  for (const double code : to_doubles(codes)) decisions.codes.push_back(static_cast<int>(code));
  decisions.scales = to_doubles(quantized.scales);
  decisions.zeros = to_doubles(quantized.zeros);
  return {std::move(oracle), std::move(decisions)};
}

// 1/2 tr(E H E^T) with the damped H the solver used; dead columns left out, whose repaired diagonal
// is no data.
double loss_from_errors(const SweepProblem& problem, const at::Tensor& h, const Solved& solved) {
  const auto prepared = prepared_in_float64(problem, h);
  const auto cleared = problem.weights.to(at::kDouble).masked_fill(prepared.dead.unsqueeze(0), 0);
  auto e = cleared - solved.result.quantized.dequantize(at::kDouble);
  if (prepared.order.defined()) e = e.index_select(1, prepared.order);
  return 0.5 * (at::mm(e, prepared.matrix) * e).sum().item<double>();
}

struct Shape {
  int64_t rows;
  int64_t columns;
  int64_t group_size;
  int64_t block_size;
};

// Groups of 32, 64, 128 and whole rows; last groups that are short; columns that are no multiple of
// the block.
const Shape kShapes[] = {{24, 256, 32, 128},  {16, 256, 64, 128}, {16, 384, 128, 128},
                         {16, 200, -1, 128},  {24, 300, 32, 128}, {16, 333, 64, 128},
                         {16, 300, 128, 128}, {16, 250, 48, 64},  {8, 300, 192, 128},
                         {8, 97, 8, 33},      {8, 40, 100, 128}};

const Shape kSmallShapes[] = {
    {4, 100, 32, 64}, {4, 150, 64, 128}, {4, 150, 128, 128}, {4, 90, -1, 64}, {4, 97, 8, 33}};
const Shape kSmallestShapes[] = {{3, 44, -1, 64}, {3, 50, 16, 64}};

class SolverPairs : public ::testing::TestWithParam<std::tuple<Inputs, /*act_order*/ bool>> {
 protected:
  // Calls `test(shape)` for each shape, with the shape in every failure message.
  template <size_t kCount, class Test>
  void for_each_shape(const Shape (&shapes)[kCount], Test test) {
    for (const auto& shape : shapes) {
      SCOPED_TRACE(std::to_string(shape.rows) + " x " + std::to_string(shape.columns) +
                   ", groups of " + std::to_string(shape.group_size) + ", blocks of " +
                   std::to_string(shape.block_size));
      test(shape);
    }
  }
};

// Issue 3, item 5: with asymmetric or static grids, float64 codes are equal in a free run.
TEST_P(SolverPairs, SameCodesInFloat64) {
  const auto inputs = std::get<0>(GetParam());
  const bool act_order = std::get<1>(GetParam());
  for_each_shape(kShapes, [&](const Shape& shape) {
    const auto h = hessian_of(calibration_inputs(inputs, shape.columns, 11));
    const auto weights = normal_matrix(shape.rows, shape.columns, 5) * 0.05;
    for (const bool static_groups : {false, true}) {
      for (const int64_t bits : {3, 4}) {
        MethodConfig method;
        method.block_size = shape.block_size;
        method.act_order = act_order;
        method.static_groups = static_groups;
        method.compute = ComputeDtype::kFloat64;
        const auto problem =
            make_problem(weights, {.bits = bits, .group_size = shape.group_size}, method);
        const auto reference = solve(problem, h, SolverKind::kReference);
        const auto fast = solve(problem, h, SolverKind::kFast);
        EXPECT_EQ(codes_that_differ(reference.result.quantized, fast.result.quantized), 0)
            << "bits " << bits << " static " << static_groups;
        EXPECT_TRUE(at::equal(reference.result.quantized.zeros, fast.result.quantized.zeros));
        EXPECT_NEAR(fast.result.loss / reference.result.loss, 1, 1e-9);
        EXPECT_NEAR(fast.result.loss / loss_from_errors(problem, h, fast), 1, 1e-5);
        fast.result.quantized.validate("test.layer");
      }
    }
  });
}

// Stale grids, as the published code takes them, and grids that cross block borders.
TEST_P(SolverPairs, SameCodesWithStaleGrids) {
  const auto inputs = std::get<0>(GetParam());
  const bool act_order = std::get<1>(GetParam());
  for_each_shape(kShapes, [&](const Shape& shape) {
    const auto h = hessian_of(calibration_inputs(inputs, shape.columns, 12));
    const auto weights = normal_matrix(shape.rows, shape.columns, 6) * 0.05;
    MethodConfig method;
    method.block_size = shape.block_size;
    method.act_order = act_order;
    method.compute = ComputeDtype::kFloat64;
    CompatPolicy compat;
    compat.reference_group_grid = true;
    const auto problem =
        make_problem(weights, {.bits = 3, .group_size = shape.group_size}, method, compat);
    const auto reference = solve(problem, h, SolverKind::kReference);
    const auto fast = solve(problem, h, SolverKind::kFast);
    EXPECT_EQ(codes_that_differ(reference.result.quantized, fast.result.quantized), 0);
  });
}

// The oracle takes the cube of the columns in extended precision, so its problems are smaller.
class SolversAgainstOracle : public SolverPairs {};

// Symmetric dynamic groups put a weight on a rounding boundary by construction: judged column by
// column.
TEST_P(SolversAgainstOracle, SymmetricGroupsColumnByColumn) {
  const auto inputs = std::get<0>(GetParam());
  const bool act_order = std::get<1>(GetParam());
  for_each_shape(kSmallShapes, [&](const Shape& shape) {
    const auto h = hessian_of(calibration_inputs(inputs, shape.columns, 13));
    const auto weights = normal_matrix(shape.rows, shape.columns, 7) * 0.05;
    for (const bool stale : {false, true}) {
      MethodConfig method;
      method.block_size = shape.block_size;
      method.act_order = act_order;
      method.compute = ComputeDtype::kFloat64;
      CompatPolicy compat;
      compat.reference_group_grid = stale;
      const auto problem = make_problem(
          weights, {.bits = 4, .group_size = shape.group_size, .symmetric = true}, method, compat);
      for (const auto solver : {SolverKind::kReference, SolverKind::kFast}) {
        const auto solved = solve(problem, h, solver);
        const auto [oracle, decisions] = for_oracle(problem, h, solved);
        const auto comparison =
            compare_with_oracle(oracle, decisions, [](double reach) { return 1e-9 * (1 + reach); });
        EXPECT_EQ(comparison.unexplained, 0)
            << "largest excess " << comparison.largest_excess << " of " << comparison.differ;
        EXPECT_LT(comparison.largest_scale_error, 1e-6);
      }
    }
  });
}

// The oracle that whole layers of a model are held against comes to the same: of codes that are
// right, and of codes of which one in each row is a step off, which moves what all later columns of
// the row should be.
TEST_P(SolversAgainstOracle, TheOracleOfWholeLayersSaysTheSame) {
  const auto inputs = std::get<0>(GetParam());
  const bool act_order = std::get<1>(GetParam());
  for_each_shape(kSmallestShapes, [&](const Shape& shape) {
    const auto h = hessian_of(calibration_inputs(inputs, shape.columns, 15));
    const auto weights = normal_matrix(shape.rows, shape.columns, 9) * 0.05;
    for (const bool symmetric : {false, true}) {
      MethodConfig method;
      method.act_order = act_order;
      const auto problem = make_problem(
          weights, {.bits = 3, .group_size = shape.group_size, .symmetric = symmetric}, method);
      auto solved = solve(problem, h, SolverKind::kFast);
      const FedOracle whole(h, method.damping, act_order);
      for (const int64_t wrong_column : {int64_t{-1}, shape.columns / 3}) {
        if (wrong_column >= 0) {
          auto codes = solved.result.quantized.codes.select(1, wrong_column);
          codes.copy_(at::where(codes > 0, codes - 1, codes + 1));
        }
        const auto [oracle, decisions] = for_oracle(problem, h, solved);
        const auto expected = compare_with_oracle(oracle, decisions, [](double) { return 0.1; });
        const auto judged = whole.judge(problem.weights, solved.result.quantized,
                                        problem.rule.quant, shape.group_size < 0, 6e-8);
        EXPECT_EQ(judged.differ, expected.differ);
        EXPECT_NEAR(judged.largest_excess, expected.largest_excess, 1e-7);
        EXPECT_NEAR(judged.loss / run_oracle(oracle, &decisions).loss, 1, 1e-8);
        if (shape.group_size > 0) {
          EXPECT_NEAR(judged.largest_scale_error, expected.largest_scale_error, 1e-6);
          EXPECT_EQ(judged.zeros_differ, expected.zeros_differ);
        }
        if (wrong_column < 0)
          EXPECT_EQ(judged.unexplained, 0);
        else
          EXPECT_GE(judged.unexplained, shape.rows);
      }
    }
  });
}

// Free-running float32 is judged by its loss, and by how often it leaves float64 compared with the
// published loop.
TEST(SolversInFloat32, LeaveFloat64NoMoreOftenThanThePublishedLoop) {
  int64_t published = 0;
  int64_t ours = 0;
  for (const auto inputs : {Inputs::kRandom, Inputs::kCorrelated, Inputs::kIllConditioned}) {
    for (const int64_t group_size : {-1, 32, 128}) {
      for (const bool symmetric : {false, true}) {
        const int64_t columns = 320;
        const auto h = hessian_of(calibration_inputs(inputs, columns, 21));
        const auto weights = normal_matrix(256, columns, 22) * 0.05;
        MethodConfig method;
        const QuantConfig quant{.bits = 4, .group_size = group_size, .symmetric = symmetric};
        method.compute = ComputeDtype::kFloat64;
        const auto exact =
            solve(make_problem(weights.to(at::kFloat), quant, method), h, SolverKind::kReference);
        method.compute = ComputeDtype::kFloat32;
        const auto problem = make_problem(weights, quant, method);
        const auto reference = solve(problem, h, SolverKind::kReference);
        const auto fast = solve(problem, h, SolverKind::kFast);
        EXPECT_NEAR(fast.result.loss / reference.result.loss, 1, 5e-3)
            << inputs_name(inputs) << " group " << group_size << " symmetric " << symmetric
            << ", float64 " << exact.result.loss / reference.result.loss;
        EXPECT_NEAR(fast.result.loss / loss_from_errors(problem, h, fast), 1, 1e-3);
        published += codes_that_differ(reference.result.quantized, exact.result.quantized);
        ours += codes_that_differ(fast.result.quantized, exact.result.quantized);
      }
    }
  }
  EXPECT_LE(static_cast<double>(ours), 1.3 * static_cast<double>(published))
      << ours << " codes against " << published;
}

// Column by column, a float32 code may differ from exact arithmetic only by float32's own error.
TEST_P(SolversAgainstOracle, Float32ColumnByColumn) {
  const auto inputs = std::get<0>(GetParam());
  const bool act_order = std::get<1>(GetParam());
  for_each_shape(kSmallShapes, [&](const Shape& shape) {
    const auto h = hessian_of(calibration_inputs(inputs, shape.columns, 14));
    const auto weights = normal_matrix(shape.rows, shape.columns, 8) * 0.05;
    for (const bool symmetric : {false, true}) {
      MethodConfig method;
      method.block_size = shape.block_size;
      method.act_order = act_order;
      const auto problem = make_problem(
          weights, {.bits = 4, .group_size = shape.group_size, .symmetric = symmetric}, method);
      const auto solved = solve(problem, h, SolverKind::kFast);
      const auto [oracle, decisions] = for_oracle(problem, h, solved);
      // Products of at most `columns` terms in float32, through a factor whose relative error is
      // the condition's square root larger than that.
      const double unit =
          6e-8 * static_cast<double>(shape.columns) * std::sqrt(condition_estimate(solved.factor));
      const auto comparison = compare_with_oracle(
          oracle, decisions, [unit](double reach) { return unit * (1 + reach); });
      EXPECT_EQ(comparison.unexplained, 0)
          << "largest excess " << comparison.largest_excess << " of " << comparison.differ;
      EXPECT_LT(comparison.largest_scale_error, unit);
    }
  });
}

std::string case_name(const ::testing::TestParamInfo<SolverPairs::ParamType>& info) {
  return inputs_name(std::get<0>(info.param)) + (std::get<1>(info.param) ? "_act_order" : "");
}

const auto kCases = ::testing::Combine(
    ::testing::Values(Inputs::kRandom, Inputs::kCorrelated, Inputs::kIllConditioned, Inputs::kDead),
    ::testing::Bool());

INSTANTIATE_TEST_SUITE_P(All, SolverPairs, kCases, case_name);
INSTANTIATE_TEST_SUITE_P(All, SolversAgainstOracle, kCases, case_name);

}  // namespace
}  // namespace gptqb::test
