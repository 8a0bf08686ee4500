// The fast solver against the published algorithm, step by step in float64, for every combination
// of order, static groups, group size, symmetry, grid search and bits, on tame and on
// ill-conditioned problems.
//
// With asymmetric or fixed grids all float64 codes must be equal in a free run. A symmetric group
// fitted on current weights has its most negative weight on a rounding boundary, and float32 rounds
// where it will: these are judged column by column, the oracle fed the solver's earlier codes
// (shared/design/solver.md, How to compare two solvers).
#include "tests/support/published_oracle.h"

#include <gtest/gtest.h>

#include "tests/support/layers.h"
#include "tests/support/problems.h"
#include "tests/support/solve.h"

namespace gptqb::test {
namespace {

// Groups of 32, 64 and 128 all end in a short one; blocks of 48 cross groups.
constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 140;
constexpr int64_t kBlock = 48;
constexpr int64_t kSeed = 9;

struct Combination {
  QuantConfig quant;
  MethodConfig method;
  bool stale = false;

  bool fixed_grids() const { return quant.group_size < 0 || method.static_groups; }
  std::string text() const {
    return std::to_string(quant.bits) + " bits" + (quant.symmetric ? ", symmetric" : "") +
           (quant.grid_search == GridSearch::kMse ? ", mse" : "") +
           (method.static_groups ? ", static groups" : "") + (stale ? ", stale grids" : "") +
           (method.solver == SolverKind::kReference ? ", reference" : "") +
           (method.compute == ComputeDtype::kFloat32 ? ", float32" : "");
  }
};

std::vector<double> doubles_of(const at::Tensor& tensor) {
  const auto flat = tensor.to(at::kDouble).contiguous().reshape({-1});
  return {flat.const_data_ptr<double>(), flat.const_data_ptr<double>() + flat.numel()};
}

SweepResult solve_combination(const Combination& tested, const at::Tensor& weights,
                              const at::Tensor& h) {
  CompatPolicy compat;
  compat.reference_group_grid = tested.stale;
  const SweepProblem problem{.layer = "test.layer",
                             .weights = weights.to(scalar_type(tested.method.compute)),
                             .rule = {tested.quant, false},
                             .method = tested.method,
                             .compat = compat};
  auto solved = solve(problem, h, tested.method.solver);
  solved.result.quantized.validate("test.layer");
  return std::move(solved.result);
}

TestedCodes decisions_of(const QuantizedLinear& quantized) {
  TestedCodes tested;
  for (const double code : doubles_of(quantized.codes))
    tested.codes.push_back(static_cast<int>(code));
  const bool ternary = quantized.ternary();
  const auto scales = doubles_of(ternary ? quantized.levels.select(2, 2) : quantized.scales);
  const auto zeros = doubles_of(ternary ? quantized.levels.select(2, 0) : quantized.zeros);
  for (size_t i = 0; i < scales.size(); ++i) tested.grids.push_back({scales[i], zeros[i]});
  return tested;
}

class PublishedAlgorithm
    : public ::testing::TestWithParam<std::tuple<ColumnOrder, Inputs, /*group_size*/ int64_t>> {
 protected:
  PublishedAlgorithm()
      : order_(std::get<0>(GetParam())),
        group_size_(std::get<2>(GetParam())),
        h_(hessian_of(calibration_inputs(std::get<1>(GetParam()), kColumns, 31))),
        weights_((normal_matrix(kRows, kColumns, 32) * 0.05).to(at::kFloat)),
        plain_weights_(doubles_of(weights_)),
        hessian_(published_hessian(doubles_of(h_), oracle_order(), 0.01)) {}

  Combination combination(int64_t bits, bool symmetric, bool mse, bool static_groups) const {
    Combination result;
    result.quant = {.bits = bits,
                    .group_size = group_size_,
                    .symmetric = symmetric,
                    .grid_search = mse ? GridSearch::kMse : GridSearch::kNone,
                    .scale_dtype = ScaleDtype::kFloat32};
    result.method.order = order_;
    result.method.order_seed = kSeed;
    result.method.static_groups = static_groups;
    result.method.block_size = kBlock;
    result.method.compute = ComputeDtype::kFloat64;
    return result;
  }

  template <class Tolerance>
  PublishedResult oracle(const Combination& tested, const TestedCodes* fed, Tolerance tolerance) {
    const PublishedSettings settings{
        .bits = tested.quant.bits,
        .group_size = tested.quant.group_size,
        .symmetric = tested.quant.symmetric,
        .mse = tested.quant.grid_search == GridSearch::kMse,
        .static_groups = tested.method.static_groups,
        .stale_block = tested.stale ? tested.method.block_size : 0,
        .half_scales = tested.quant.scale_dtype == ScaleDtype::kFloat16};
    return run_published(plain_weights_, kRows, hessian_, settings, fed, tolerance);
  }

  // All codes and grids of a free run.
  void expect_equal(const Combination& tested) {
    SCOPED_TRACE(tested.text());
    const auto solved = solve_combination(tested, weights_, h_);
    const auto decisions = decisions_of(solved.quantized);
    const auto expected = oracle(tested, nullptr, [](double) { return 0.0; });
    EXPECT_EQ(decisions.codes, expected.codes);
    for (size_t i = 0; i < expected.grids.size(); ++i) {
      EXPECT_NEAR(decisions.grids[i].scale, expected.grids[i].scale,
                  2e-7 * expected.grids[i].scale);
      EXPECT_NEAR(decisions.grids[i].zero, expected.grids[i].zero,
                  2e-7 * std::abs(expected.grids[i].zero));
    }
    EXPECT_NEAR(solved.loss / expected.loss, 1, 1e-7);
    expect_group_index(tested, solved.quantized, expected);
  }

  // Each code, given the ones before it; `unit`: the arithmetic's error bound in steps.
  void expect_explained(const Combination& tested, double unit) {
    SCOPED_TRACE(tested.text());
    const auto solved = solve_combination(tested, weights_, h_);
    const auto decisions = decisions_of(solved.quantized);
    const auto judged =
        oracle(tested, &decisions, [&](double reach) { return unit * (1 + reach); });
    EXPECT_EQ(judged.unexplained, 0)
        << "largest excess " << judged.largest_excess << " of " << judged.differ;
    // The search compares sums of errors, which at 8 bits are small against the weights.
    const bool rough = tested.method.compute == ComputeDtype::kFloat32 &&
                       tested.quant.grid_search == GridSearch::kMse;
    EXPECT_LT(judged.largest_grid_error, rough ? 1e-3 : std::max(unit, 2e-7));
    EXPECT_EQ(judged.zeros_differ, 0);
    EXPECT_NEAR(solved.loss / judged.loss, 1, std::max(10 * unit, 1e-7));
    expect_group_index(tested, solved.quantized, judged);
  }

  void expect_float32_explained(Combination tested) {
    tested.method.compute = ComputeDtype::kFloat32;
    // Products of at most kColumns terms, through a factor whose relative error is the root of the
    // condition larger than that.
    expect_explained(tested, 6e-8 * kColumns * std::sqrt(hessian_.condition));
  }

  void expect_right_in_float64(const Combination& tested) {
    if (tested.fixed_grids() || !tested.quant.symmetric)
      expect_equal(tested);
    else
      expect_explained(tested, 1e-9);
  }

 private:
  std::vector<int64_t> oracle_order() const {
    if (order_ == ColumnOrder::kAct) return falling_diagonal(doubles_of(h_), kColumns);
    std::vector<int64_t> order(kColumns);
    std::iota(order.begin(), order.end(), 0);
    if (order_ == ColumnOrder::kReverse) std::reverse(order.begin(), order.end());
    if (order_ == ColumnOrder::kRandom) {
      // Gptq.RandomOrderIsPythonsShuffle holds the draw itself against Python.
      const auto drawn = prepare_hessian(h_, 0.01, {.order = order_, .order_seed = kSeed}).order;
      for (size_t i = 0; i < order.size(); ++i)
        order[i] = drawn[static_cast<int64_t>(i)].item<int64_t>();
    }
    return order;
  }

  // Groups that follow the sweep need an index wherever the sweep is not from left to right.
  void expect_group_index(const Combination& tested, const QuantizedLinear& quantized,
                          const PublishedResult& expected) const {
    const bool needed = !tested.fixed_grids() && order_ != ColumnOrder::kNatural;
    ASSERT_EQ(quantized.group_of_input.defined(), needed);
    if (needed) {
      EXPECT_TRUE(at::equal(quantized.group_of_input.to(at::kLong),
                            at::tensor(expected.group_of_input, at::kLong)));
    }
  }

  ColumnOrder order_;
  int64_t group_size_;
  at::Tensor h_;
  at::Tensor weights_;
  std::vector<double> plain_weights_;
  PublishedHessian hessian_;
};

TEST_P(PublishedAlgorithm, FastAgreesInEveryCombination) {
  for (const int64_t bits : {int64_t{2}, int64_t{3}, int64_t{4}, int64_t{8}, QuantConfig::kTernary})
    for (const bool symmetric : {false, true})
      for (const bool static_groups : {false, true})
        for (const bool mse : {false, true}) {
          if (mse && bits == QuantConfig::kTernary) continue;  // refused by name
          const auto tested = combination(bits, symmetric, mse, static_groups);
          expect_right_in_float64(tested);
          expect_float32_explained(tested);
        }
}

// The published quirk: grids from weights as of the start of the block. Both solvers.
TEST_P(PublishedAlgorithm, BothSolversAgreeOnStaleGrids) {
  for (const int64_t bits : {int64_t{3}, QuantConfig::kTernary})
    for (const bool symmetric : {false, true})
      for (const auto solver : {SolverKind::kFast, SolverKind::kReference}) {
        auto tested = combination(bits, symmetric, false, false);
        tested.stale = true;
        tested.method.solver = solver;
        expect_right_in_float64(tested);
      }
}

// The printed algorithm too, with current grids, and scales rounded to float16 before the sweep.
TEST_P(PublishedAlgorithm, ReferenceAgreesWithFloat16Scales) {
  for (const int64_t bits : {int64_t{4}, QuantConfig::kTernary})
    for (const bool static_groups : {false, true})
      for (const auto solver : {SolverKind::kFast, SolverKind::kReference}) {
        auto tested = combination(bits, false, false, static_groups);
        tested.quant.scale_dtype = ScaleDtype::kFloat16;
        tested.method.solver = solver;
        expect_right_in_float64(tested);
      }
}

std::string case_name(const ::testing::TestParamInfo<PublishedAlgorithm::ParamType>& info) {
  static const std::map<ColumnOrder, std::string> kOrders = {{ColumnOrder::kNatural, "natural"},
                                                             {ColumnOrder::kAct, "act"},
                                                             {ColumnOrder::kReverse, "reverse"},
                                                             {ColumnOrder::kRandom, "random"}};
  const int64_t group = std::get<2>(info.param);
  return kOrders.at(std::get<0>(info.param)) + "_" + inputs_name(std::get<1>(info.param)) + "_" +
         (group < 0 ? "rows" : "g" + std::to_string(group));
}

INSTANTIATE_TEST_SUITE_P(
    All, PublishedAlgorithm,
    ::testing::Combine(::testing::Values(ColumnOrder::kNatural, ColumnOrder::kAct,
                                         ColumnOrder::kReverse, ColumnOrder::kRandom),
                       ::testing::Values(Inputs::kRandom, Inputs::kIllConditioned),
                       ::testing::Values(-1, 32, 64, 128)),
    case_name);

// The field catalogue's codes, which come from an implementation of its own.
TEST(PublishedOracle, GivesTheCataloguesCodes) {
  const auto weights = doubles_of(catalogue_weights());
  std::vector<double> h(64, 1);
  std::vector<int64_t> order(8);
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = 0; i < 8; ++i) h[9 * i] = 1.5;
  const auto hessian = published_hessian(h, order, 0.01);
  PublishedSettings settings{.bits = 2, .group_size = 2};
  const auto codes = [&] {
    std::string text;
    for (const int code :
         run_published(weights, 4, hessian, settings, nullptr, [](double) { return 0.0; }).codes)
      text += std::to_string(code);
    return text;
  };
  EXPECT_EQ(codes(), "03000310303030033023303030030303");
  settings.stale_block = 8;
  EXPECT_EQ(codes(), "03000311303130133023302030030303");
}

}  // namespace
}  // namespace gptqb::test
