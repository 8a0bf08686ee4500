// The method `obq`: every step against constrained least squares solved anew, forced orders against
// GPTQ, and the faults of the field catalogue that a greedy solver can have.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/error.h"
#include "methods/gptq_problem.h"
#include "methods/obq_fast.h"
#include "methods/obq_reference.h"
#include "methods/row_sample.h"
#include "tests/support/layers.h"
#include "tests/support/message.h"
#include "tests/support/obq_oracle.h"
#include "tests/support/problems.h"

namespace gptqb::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Settings {
  Inputs inputs = Inputs::kCorrelated;
  int64_t rows = 3;
  int64_t columns = 12;
  int64_t group_size = -1;
  int64_t bits = 3;
  bool symmetric = false;
  bool greedy = true;
  bool outlier_first = false;
  at::ScalarType dtype = at::kDouble;
};

struct Made {
  ObqProblem problem;
  at::Tensor hessian;  // f64, damped
};

Made make(const Settings& settings) {
  const auto h = hessian_of(calibration_inputs(settings.inputs, settings.columns, 31));
  const auto weights = normal_matrix(settings.rows, settings.columns, 32) * 0.05;
  MethodConfig method;
  method.compute = settings.dtype == at::kDouble ? ComputeDtype::kFloat64 : ComputeDtype::kFloat32;
  method.static_groups = true;
  QuantConfig quant{.bits = settings.bits,
                    .group_size = settings.group_size,
                    .symmetric = settings.symmetric,
                    .scale_dtype = ScaleDtype::kFloat32};
  const SweepProblem sweep{.layer = "test.layer",
                           .weights = weights.to(settings.dtype),
                           .rule = {quant, false},
                           .method = method,
                           .compat = {}};
  FactorFailure failure;
  MethodConfig exact = method;
  exact.compute = ComputeDtype::kFloat64;
  const auto hessian = prepare_hessian(h, 0.01, exact).matrix;
  auto factor = factorize_inverse(prepare_hessian(h, 0.01, method), failure);
  if (!factor) throw std::runtime_error("factorization failed");
  const auto ordered = order_problem(sweep, factor->prepared);
  return {{.layer = "test.layer",
           .weights = ordered.weights,
           .inverse = factor->triangle,
           .grids = ordered.grids,
           .group_of_position = ordered.group_of_position,
           .quant = quant,
           .greedy = settings.greedy,
           .outlier_first = settings.outlier_first,
           .budget = int64_t{1} << 30},
          hessian};
}

ObqResult solve(const ObqProblem& problem, SolverKind solver) {
  return solver == SolverKind::kReference ? solve_obq_reference(problem) : solve_obq_fast(problem);
}

LinearProblem obq_problem(const at::Tensor& weight, const CalibrationStats* stats,
                          std::optional<ColumnOrder> order = std::nullopt) {
  auto problem = layer_problem(weight, stats);
  problem.method.order = order;
  return problem;
}

class BothObqSolvers : public ::testing::TestWithParam<SolverKind> {};
INSTANTIATE_TEST_SUITE_P(All, BothObqSolvers,
                         ::testing::Values(SolverKind::kFast, SolverKind::kReference),
                         [](const auto& tested) {
                           return tested.param == SolverKind::kFast ? "fast" : "reference";
                         });

// Issue 4, item 3: each step's choice and update is that of constrained least squares, solved anew.
TEST_P(BothObqSolvers, EveryStepIsAnExactResolve) {
  for (const auto inputs : {Inputs::kRandom, Inputs::kCorrelated, Inputs::kDead})
    for (const int64_t group_size : {-1, 5})
      for (const bool symmetric : {false, true}) {
        const auto made =
            make({.inputs = inputs, .group_size = group_size, .symmetric = symmetric});
        EXPECT_EQ(check_obq(made.problem, made.hessian, solve(made.problem, GetParam()), 1e-7), "")
            << inputs_name(inputs) << " groups of " << group_size << " symmetric " << symmetric;
      }
}

// Across the points where the fast solver rewrites its matrix.
TEST_P(BothObqSolvers, EveryStepIsAnExactResolveBeyondOneRewrite) {
  const auto made = make({.rows = 1, .columns = 36, .bits = 2});
  EXPECT_EQ(check_obq(made.problem, made.hessian, solve(made.problem, GetParam()), 1e-7), "");
}

TEST_P(BothObqSolvers, OutliersAreTakenFirst) {
  const auto plain = make({.rows = 6, .columns = 14, .bits = 2});
  auto outliers = plain;
  outliers.problem.outlier_first = true;
  const auto with = solve(outliers.problem, GetParam());
  EXPECT_EQ(check_obq(outliers.problem, outliers.hessian, with, 1e-7), "");
  // The rule must have had something to do.
  EXPECT_FALSE(at::equal(with.steps, solve(plain.problem, GetParam()).steps));
}

TEST_P(BothObqSolvers, LosesItsPivotOnRecord) {
  auto made = make({.rows = 2, .columns = 3});
  made.problem.inverse = at::ones({3, 3}, at::kDouble);  // of no matrix: two columns are one
  const auto result = solve(made.problem, GetParam());
  ASSERT_TRUE(result.breakdown.has_value());
  EXPECT_EQ(result.breakdown->row, 0);
}

// Every number of columns around the fast solver's rewriting, both kinds of grid.
TEST(Obq, FastEqualsReference) {
  for (const int64_t columns : {1, 2, 3, 15, 16, 17, 31, 32, 33, 50, 97})
    for (const bool outlier_first : {false, true})
      for (const bool greedy : {false, true}) {
        const auto made =
            make({.inputs = columns % 2 == 0 ? Inputs::kDead : Inputs::kIllConditioned,
                  .rows = 4,
                  .columns = columns,
                  .group_size = columns > 20 ? 16 : -1,
                  .greedy = greedy,
                  .outlier_first = outlier_first});
        const auto reference = solve_obq_reference(made.problem);
        const auto fast = solve_obq_fast(made.problem);
        ASSERT_FALSE(reference.breakdown || fast.breakdown);
        EXPECT_TRUE(at::equal(reference.codes, fast.codes)) << columns;
        EXPECT_TRUE(at::equal(reference.steps, fast.steps)) << columns;
        EXPECT_NEAR(fast.loss, reference.loss, 1e-9 * reference.loss);
      }
}

TEST(Obq, OutliersFirstAndAForcedOrderExcludeEachOther) {
  const auto weight = normal_matrix(3, 8, 1).to(at::kFloat);
  const auto stats = stats_of(calibration_inputs(Inputs::kRandom, 8, 2));
  auto problem = obq_problem(weight, &stats, ColumnOrder::kReverse);
  problem.method.outlier_first = true;
  EXPECT_THAT(message_of([&] { quantize_with("obq", problem); }),
              HasSubstr("expected method.outlier_first: false beside an order that all rows share, "
                        "got true. Use order greedy"));
  problem.method.order = ColumnOrder::kGreedy;
  EXPECT_EQ(message_of([&] { quantize_with("obq", problem); }), "nothing was thrown");
}

// The sum of the steps is the layer's error: 1/2 tr(E H E^T).
TEST(Obq, LossIsThatOfTheErrors) {
  for (const auto dtype : {at::kDouble, at::kFloat}) {
    const auto made = make({.rows = 8, .columns = 64, .group_size = 16, .dtype = dtype});
    const auto result = solve_obq_fast(made.problem);
    const auto group = made.problem.group_of_position.to(at::kLong);
    const auto q =
        dequantize_values(result.codes.to(dtype), made.problem.grids.scale.index_select(1, group),
                          made.problem.grids.zero.index_select(1, group));
    const auto e = (made.problem.weights - q).to(at::kDouble);
    const double loss = 0.5 * (at::mm(e, made.hessian) * e).sum().item<double>();
    EXPECT_NEAR(result.loss / loss, 1, dtype == at::kDouble ? 1e-9 : 1e-3);
  }
}

// Issue 4, item 3: in a given order OBQ is GPTQ, up to the way the numbers are arrived at.
TEST(Obq, InAForcedOrderGivesGptqsCodes) {
  for (const auto inputs :
       {Inputs::kRandom, Inputs::kCorrelated, Inputs::kIllConditioned, Inputs::kDead})
    for (const int64_t group_size : {-1, 32})
      for (const auto order : {ColumnOrder::kNatural, ColumnOrder::kAct, ColumnOrder::kReverse})
        for (const int64_t bits : {3, 4}) {
          const auto stats = stats_of(calibration_inputs(inputs, 100, 41));
          auto problem = obq_problem(normal_matrix(12, 100, 42) * 0.05, &stats, order);
          problem.quant.group_size = group_size;
          problem.quant.bits = bits;
          problem.method.static_groups = true;
          const auto obq = quantize_with("obq", problem);
          const auto gptq = quantize_with("gptq", problem);
          EXPECT_TRUE(at::equal(obq.quantized().codes, gptq.quantized().codes))
              << inputs_name(inputs) << " groups of " << group_size << " bits " << bits;
          EXPECT_TRUE(at::equal(obq.quantized().scales, gptq.quantized().scales));
          EXPECT_NEAR(*obq.health.loss / *gptq.health.loss, 1, 1e-8);
          EXPECT_NEAR(*obq.health.condition / *gptq.health.condition, 1, 1e-9);
        }
}

// Its own order is another one.
TEST(Obq, ChoosesByItselfUnlessToldOtherwise) {
  const auto stats = stats_of(calibration_inputs(Inputs::kCorrelated, 40, 43));
  const auto weight = normal_matrix(6, 40, 44).to(at::kFloat);
  const auto free = quantize_with("obq", obq_problem(weight, &stats));
  const auto greedy = quantize_with("obq", obq_problem(weight, &stats, ColumnOrder::kGreedy));
  const auto forced = quantize_with("obq", obq_problem(weight, &stats, ColumnOrder::kNatural));
  EXPECT_TRUE(at::equal(free.quantized().codes, greedy.quantized().codes));
  EXPECT_FALSE(at::equal(free.quantized().codes, forced.quantized().codes));
  EXPECT_EQ(free.health.method, "obq");
  EXPECT_EQ(free.health.tokens, stats.tokens());
  EXPECT_TRUE(free.health.relative_error && free.health.relative_error_rtn && free.health.loss);
  EXPECT_GT(*free.health.condition, 1);
}

// Float32 may take another turn at a near tie; what counts is the loss.
TEST(Obq, Float32ReachesTheLossOfFloat64) {
  for (const auto inputs : {Inputs::kRandom, Inputs::kCorrelated, Inputs::kIllConditioned}) {
    const auto exact =
        solve_obq_fast(make({.inputs = inputs, .rows = 32, .columns = 128, .bits = 4}).problem);
    const auto rounded = solve_obq_fast(
        make({.inputs = inputs, .rows = 32, .columns = 128, .bits = 4, .dtype = at::kFloat})
            .problem);
    ASSERT_FALSE(rounded.breakdown.has_value()) << inputs_name(inputs);
    EXPECT_NEAR(rounded.loss / exact.loss, 1, 2e-2) << inputs_name(inputs);
  }
}

// QN-20: a singular H is refused, or damped on record; never NaN.
TEST_P(BothObqSolvers, RankOneHessianIsRefusedOrDamped) {
  const auto stats = stats_of(at::tensor({1.f, 2.f, 3.f}).expand({1, 2, 3}));
  auto problem = obq_problem(matrix({{.3f, -.7f, .2f}, {.5f, .1f, -.4f}}), &stats);
  problem.method.solver = GetParam();
  problem.method.damping = 0;
  problem.method.on_failure = OnFailure::kError;
  EXPECT_THAT(message_of([&] { quantize_with("obq", problem); }),
              AllOf(StartsWith("[model.layers.3.mlp.down_proj] expected a positive definite"),
                    HasSubstr("with damping 0 (1 tried)")));
  problem.method.on_failure = OnFailure::kRtn;
  const auto rtn = quantize_with("obq", problem);
  EXPECT_THAT(rtn.health.status, StartsWith("rtn: the factorization fails at input column"));
  EXPECT_TRUE(at::equal(rtn.quantized().codes, quantize_with("rtn", problem).quantized().codes));
  problem.method.on_failure = OnFailure::kRaiseDamping;
  const auto raised = quantize_with("obq", problem);
  EXPECT_EQ(raised.health.damping, 0.01);
  EXPECT_EQ(raised.health.damping_tries, 2);
  EXPECT_TRUE(std::isfinite(*raised.health.loss));
  EXPECT_TRUE(raised.quantized().dequantize(at::kFloat).isfinite().all().item<bool>());

  // ... and in natural order OBQ and GPTQ agree on a row of six.
  const auto six = stats_of(calibration_inputs(Inputs::kRandom, 6, 3));
  auto row = obq_problem(normal_matrix(1, 6, 4).to(at::kFloat), &six, ColumnOrder::kNatural);
  row.method.solver = GetParam();
  EXPECT_TRUE(at::equal(quantize_with("obq", row).quantized().codes,
                        quantize_with("gptq", row).quantized().codes));
}

// Both solvers lose the same pivots, and the layer answers as if H had not been factored.
TEST_P(BothObqSolvers, DeadColumnsAreCleared) {
  auto x = normal_matrix(12, 4, 5).to(at::kFloat).unsqueeze(0).clone();
  x.select(2, 2).zero_();
  const auto stats = stats_of(x);
  auto problem = obq_problem(matrix({{.3f, -.7f, 5, .2f}, {1.1f, .4f, -6, -.9f}}), &stats);
  problem.method.solver = GetParam();
  const auto result = quantize_with("obq", problem);
  EXPECT_NEAR(result.quantized().scales[0][0].item<float>(), 0.0667, 1e-4);  // QN-08
  EXPECT_EQ(result.quantized().dequantize(at::kFloat).select(1, 2).abs().max().item<float>(), 0);
  EXPECT_EQ(result.health.dead_columns, 1);
  problem.compat.reference_dead_columns = true;
  const auto published = quantize_with("obq", problem);
  EXPECT_NEAR(published.quantized().scales[0][0].item<float>(), 0.38, 1e-4);
  EXPECT_EQ(published.quantized().dequantize(at::kFloat).select(1, 2).abs().max().item<float>(), 0);

  const auto nothing = stats_of(at::zeros({1, 6, 4}));  // QN-09
  problem.stats = &nothing;
  const auto rtn = quantize_with("obq", problem);
  EXPECT_EQ(rtn.health.status, "rtn: every input of this layer was 0 in calibration");
  EXPECT_TRUE(at::equal(rtn.quantized().codes, quantize_with("rtn", problem).quantized().codes));
}

// Weights on the grid cost nothing: none of them is moved.
TEST_P(BothObqSolvers, WeightsOnTheGridStay) {
  const auto stats = stats_of(calibration_inputs(Inputs::kCorrelated, 24, 7));
  const auto codes = at::remainder(at::arange(5 * 24, at::kFloat) * 7, 16).reshape({5, 24});
  codes.select(1, 0).fill_(0);
  codes.select(1, 1).fill_(15);
  auto problem = obq_problem((codes - 5) * 0.125, &stats);
  problem.method.solver = GetParam();
  problem.quant.scale_dtype = ScaleDtype::kFloat16;
  const auto result = quantize_with("obq", problem);
  EXPECT_TRUE(at::equal(result.quantized().dequantize(at::kFloat), problem.weight));
  EXPECT_EQ(*result.health.loss, 0);
}

// Grids are those of the original weights: OBQ has static groups whatever it is told.
TEST(Obq, GridsAreFixedBeforeTheFirstWeight) {
  const auto stats = stats_of(calibration_inputs(Inputs::kCorrelated, 22, 8));
  auto problem = obq_problem(normal_matrix(3, 22, 9).to(at::kFloat), &stats);
  problem.quant.group_size = 8;
  problem.method.act_order = true;
  const auto result = quantize_with("obq", problem);
  EXPECT_FALSE(result.quantized().group_of_input.defined());
  EXPECT_TRUE(
      at::allclose(result.quantized().scales, quantize_with("rtn", problem).quantized().scales));
}

TEST(Obq, ThreadsAndBudgetDoNotChangeTheResult) {
  auto made = make({.rows = 9, .columns = 50, .dtype = at::kFloat});
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = solve_obq_fast(made.problem);
  at::set_num_threads(2);
  const auto two = solve_obq_fast(made.problem);
  made.problem.budget = 20000;  // one row in flight
  const auto tight = solve_obq_fast(made.problem);
  at::set_num_threads(before);
  for (const auto* other : {&two, &tight}) {
    EXPECT_TRUE(at::equal(one.codes, other->codes));
    EXPECT_TRUE(at::equal(one.steps, other->steps));
    EXPECT_EQ(one.loss, other->loss);
  }
}

TEST(Obq, MemoryIsPlannedFromTheBudget) {
  const int64_t mib = int64_t{1} << 20;
  // 1024 x 1024 floats are 4 MiB, and a little more beside them.
  EXPECT_EQ(obq_rows_in_flight("l", 500, 1024, at::kFloat, 64 * mib, 100), 15);
  EXPECT_EQ(obq_rows_in_flight("l", 500, 1024, at::kDouble, 64 * mib, 100), 7);
  EXPECT_EQ(obq_rows_in_flight("l", 500, 1024, at::kFloat, 64 * mib, 8), 8);
  EXPECT_EQ(obq_rows_in_flight("l", 3, 1024, at::kFloat, 64 * mib, 8), 3);
  EXPECT_THAT(message_of([&] { obq_rows_in_flight("a.b", 500, 1024, at::kFloat, 4 * mib, 8); }),
              AllOf(StartsWith("[a.b] expected OBQ's inverse of one row to fit 0.00391 GiB"),
                    HasSubstr("1024 x 1024"), HasSubstr("method.layers")));
}

TEST(RowSample, RowsAreEvenlySpaced) {
  EXPECT_TRUE(at::equal(evenly_spaced_rows(10, 4), at::tensor({0, 2, 5, 7}, at::kLong)));
  EXPECT_TRUE(at::equal(evenly_spaced_rows(3, 3), at::tensor({0, 1, 2}, at::kLong)));
  EXPECT_TRUE(at::equal(evenly_spaced_rows(7, 1), at::tensor({0}, at::kLong)));
}

// Solved rows are those of the whole solve, all others RTN's, and errors count the solved rows
// only.
TEST(RowSample, SolvesSomeRowsAndRoundsTheOthers) {
  const auto stats = stats_of(calibration_inputs(Inputs::kCorrelated, 30, 51));
  const auto weight = normal_matrix(7, 30, 52).to(at::kFloat);
  const auto rows = evenly_spaced_rows(7, 3);
  for (const char* method : {"obq", "gptq"})
    for (const bool act_order : {false, true}) {
      auto problem = layer_problem(weight, &stats);
      problem.quant.group_size = 8;
      problem.method.act_order = act_order;
      const auto quantizer = quantizers().at(method).make();
      const auto all = quantize_rows(*quantizer, problem);
      EXPECT_FALSE(all.health.rows_solved.has_value());
      problem.method.rows = 3;
      const auto sample = quantize_rows(*quantizer, problem);
      sample.quantized().validate("sample");
      EXPECT_EQ(sample.health.rows_solved, 3);
      const auto some = [&](const at::Tensor& tensor) { return tensor.index_select(0, rows); };
      EXPECT_TRUE(at::equal(some(sample.quantized().codes), some(all.quantized().codes)));
      EXPECT_TRUE(at::equal(some(sample.quantized().scales), some(all.quantized().scales)));
      const auto others = at::tensor({1, 3, 5, 6}, at::kLong);
      const auto dense = sample.quantized().dequantize(at::kFloat).index_select(0, others);
      const auto far = (dense - weight.index_select(0, others)).abs();
      // Rounded to nearest: no weight is moved by more than half a step.
      EXPECT_LE(far.max().item<float>(),
                0.5001f * sample.quantized().scales.index_select(0, others).max().item<float>());
      const auto e = some(weight - all.quantized().dequantize(at::kFloat)).to(at::kDouble);
      const auto h = stats.hessian().to(at::kDouble);
      const auto w = some(weight).to(at::kDouble);
      EXPECT_NEAR(*sample.health.relative_error,
                  ((at::mm(e, h) * e).sum() / (at::mm(w, h) * w).sum()).item<double>(), 1e-6);
      problem.method.rows = 7;
      EXPECT_FALSE(quantize_rows(*quantizer, problem).health.rows_solved.has_value());
    }
}

}  // namespace
}  // namespace gptqb::test
