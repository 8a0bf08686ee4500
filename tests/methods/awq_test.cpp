#include "methods/awq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "methods/quadratic_form.h"
#include "methods/quantizer.h"
#include "tests/support/layers.h"
#include "tests/support/message.h"

namespace gptqb {
namespace {

using test::layer_problem;
using test::message_of;
using test::random;
using test::stats_of;
using testing::HasSubstr;

GridRule four_bits(int64_t group_size) {
  return {{.bits = 4, .group_size = group_size, .scale_dtype = ScaleDtype::kFloat32}};
}

TEST(AwqScales, AreThePowerNormalizedByTheGeometricMeanOfItsEnds) {
  const auto mean = at::tensor({0.25f, 1.0f, 4.0f, 0.0f});
  const auto half = awq_scales(mean, 0.5);
  // 0.5, 1, 2 and the floor 1e-4; divided by sqrt(2 * 1e-4).
  const double norm = std::sqrt(2 * 1e-4);
  EXPECT_NEAR(half[0].item<double>(), 0.5 / norm, 1e-3);
  EXPECT_NEAR(half[2].item<double>(), 2 / norm, 1e-2);
  EXPECT_NEAR(half[3].item<double>(), 1e-4 / norm, 1e-6);
  // Exponent 0 changes nothing, so the search never does worse than no scales at all.
  EXPECT_TRUE(at::equal(awq_scales(mean, 0), at::ones({4})));
}

TEST(AwqRounding, ScaledAndBackIsRoundToNearestOfTheScaledWeights) {
  const auto weights = random({6, 40}, 1);
  const auto scales = random({40}, 2).abs() + 0.5;
  for (const int64_t group : {-1, 16}) {
    const auto expected =
        round_to_nearest(weights * scales, four_bits(group), "x").dequantize(at::kFloat) / scales;
    EXPECT_TRUE(at::allclose(round_scaled(weights, scales, four_bits(group)), expected, 1e-5, 1e-6))
        << group;
  }
}

// The same search written as loops over rows, groups and candidates.
at::Tensor clip_by_loops(const at::Tensor& weights, const at::Tensor& moments, const GridRule& rule,
                         int64_t steps, double shrink) {
  auto result = weights.clone();
  const int64_t columns = weights.size(1);
  const int64_t width = rule.quant.columns_per_group(columns);
  for (int64_t r = 0; r < weights.size(0); ++r)
    for (int64_t begin = 0; begin < columns; begin += width) {
      const int64_t end = std::min(begin + width, columns);
      const auto w = weights[r].slice(0, begin, end).to(at::kDouble);
      const auto m = moments.slice(0, begin, end).slice(1, begin, end).to(at::kDouble);
      const double largest = w.abs().max().item<double>();
      double least = INFINITY;
      double best = largest;
      for (int64_t i = 0; i < static_cast<int64_t>(shrink * steps); ++i) {
        const double limit = largest * (1 - static_cast<double>(i) / steps);
        const auto clamped = w.clamp(-limit, limit);
        GridRule whole = rule;
        whole.quant.group_size = -1;
        const auto e =
            round_to_nearest(clamped.unsqueeze(0), whole, "x").dequantize(at::kDouble)[0] - w;
        const double error = at::dot(e, at::mv(m, e)).item<double>();
        if (error < least) {
          least = error;
          best = limit;
        }
      }
      result[r].slice(0, begin, end).copy_(w.clamp(-best, best));
    }
  return result;
}

// Sum over rows and groups of e^T M e, for weights that are rounded after clipping.
double clip_error(const at::Tensor& weights, const at::Tensor& clipped, const at::Tensor& moments,
                  const GridRule& rule) {
  const int64_t columns = weights.size(1);
  const int64_t width = rule.quant.columns_per_group(columns);
  const auto e =
      (round_to_nearest(clipped, rule, "x").dequantize(at::kFloat) - weights).to(at::kDouble);
  double sum = 0;
  for (int64_t begin = 0; begin < columns; begin += width) {
    const int64_t end = std::min(begin + width, columns);
    const auto part = e.slice(1, begin, end);
    const auto m = moments.slice(0, begin, end).slice(1, begin, end).to(at::kDouble);
    sum += (at::mm(part, m) * part).sum().item<double>();
  }
  return sum;
}

TEST(AwqClipping, ChoosesTheCandidateWithTheLeastOutputErrorOfItsGroup) {
  auto weights = random({5, 40}, 3);
  weights.select(1, 7).mul_(6);  // outliers worth clipping
  auto x = random({200, 40}, 4);
  x.select(1, 7).mul_(0.05);  // and little to lose by it
  const auto moments = at::mm(x.t(), x);
  for (const int64_t group : {-1, 16})
    for (const int64_t bits : {2, 3}) {
      auto rule = four_bits(group);
      rule.quant.bits = bits;
      const auto clipped = clip_weights(weights, moments, rule, 20, 0.5);
      const auto expected = clip_by_loops(weights, moments, rule, 20, 0.5);
      // In f32 a neighbouring candidate may win where two are equally good.
      EXPECT_NEAR(clip_error(weights, clipped, moments, rule),
                  clip_error(weights, expected, moments, rule),
                  1e-4 * clip_error(weights, expected, moments, rule))
          << group << " " << bits;
      EXPECT_GT(at::isclose(clipped, expected).to(at::kDouble).mean().item<double>(), 0.9);
      EXPECT_LT(clipped.abs().max().item<double>(), weights.abs().max().item<double>());
    }
}

TEST(AwqClipping, OnInputsJudgesTheSameErrorAsOnTheirMoments) {
  auto weights = random({5, 40}, 11);
  weights.select(1, 7).mul_(6);
  auto x = random({200, 40}, 12);
  x.select(1, 7).mul_(0.05);
  for (const int64_t group : {-1, 16}) {
    auto rule = four_bits(group);
    rule.quant.bits = 3;
    rule.include_zero = false;
    const auto by_moments = clip_weights(weights, at::mm(x.t(), x), rule, 20, 0.5);
    const auto by_inputs = clip_weights_on(weights, x, rule, 20, 0.5);
    EXPECT_TRUE(at::equal(by_inputs, by_moments)) << group;
    // In half precision every product, sum and square is rounded, and still much is clipped.
    const auto in_half = clip_weights_on(weights.to(at::kHalf), x.to(at::kHalf), rule, 20, 0.5);
    EXPECT_EQ(in_half.scalar_type(), at::kHalf);
    EXPECT_GT(
        at::isclose(in_half.to(at::kFloat), by_moments, 1e-3).to(at::kDouble).mean().item<double>(),
        0.8);
  }
}

TEST(AwqScales, StayInTheDtypeOfTheMean) {
  const auto mean = at::tensor({0.3f, 1.7f, 5.1f});
  const auto half = awq_scales(mean.to(at::kHalf), 0.35);
  EXPECT_EQ(half.scalar_type(), at::kHalf);
  EXPECT_TRUE(at::allclose(half.to(at::kFloat), awq_scales(mean, 0.35), 2e-3));
}

TEST(AwqReferenceGrid, NeedNotIncludeZeroAndClampsItsZeroPoint) {
  auto rule = four_bits(-1);
  rule.include_zero = false;
  // llm-awq: scale = (max - min) / 15, zero = clamp(-round(min / scale), 0, 15).
  const auto grid = fit_grid(at::tensor({1.0f, 2.5f, 4.0f}).unsqueeze(0), rule);
  EXPECT_NEAR(grid.scale.item<double>(), 3.0 / 15, 1e-7);
  EXPECT_EQ(grid.zero.item<double>(), 0);
  const auto below = fit_grid(at::tensor({-4.0f, -2.5f, -1.0f}).unsqueeze(0), rule);
  EXPECT_EQ(below.zero.item<double>(), 15);
  const auto constant = fit_grid(at::tensor({0.5f, 0.5f}).unsqueeze(0), rule);
  EXPECT_NEAR(constant.scale.item<double>(), 1e-5 / 15, 1e-12);
  const auto in_half = fit_grid(at::tensor({0.5f, 0.5f}).to(at::kHalf).unsqueeze(0), rule);
  EXPECT_NEAR(in_half.scale.item<double>(), 1e-5 / 15, std::pow(2.0, -25));
}

// A block of two stages: gate and up read the input, down reads relu(gate) * up. A norm weight
// stands before them.
class TwoStages : public BlockModel {
 public:
  TwoStages(at::Tensor norm, at::Tensor gate, at::Tensor up, at::Tensor down)
      : norm_(std::move(norm)) {
    weights_ = {{"gate", gate}, {"up", up}, {"down", down}};
  }
  int64_t block_count() const override { return 1; }
  std::string block_name(int64_t) const override { return "block"; }
  const std::vector<Stage>& stages() const override { return stages_; }
  at::ScalarType dtype() const override { return at::kFloat; }
  at::Device device() const override { return at::kCPU; }
  at::Tensor embed(const at::Tensor& ids) override { return ids; }
  void load_block(int64_t) override {}
  void release_block() override {}
  BlockActivations begin(const at::Tensor& hidden) override { return {hidden, hidden * norm_}; }
  void run_stage(size_t stage, BlockActivations& a) override {
    if (stage == 0)
      a.input =
          at::relu(at::linear(a.input, weights_["gate"])) * at::linear(a.input, weights_["up"]);
    else
      a.residual = a.residual + at::linear(a.input, weights_["down"]);
  }
  at::Tensor weight(const std::string& linear) const override { return weights_.at(linear); }
  void replace(const std::string& linear, const LinearReplacement& replacement) override {
    weights_[linear] = replacement.effective_weights(at::kFloat);
  }
  int64_t parameter_count() const override { return 0; }
  ModelExtras extras() const override { return {}; }
  at::Tensor end_weight(ModelEnd) override { return {}; }
  void replace_end(ModelEnd, const LinearReplacement&) override {}
  at::Tensor head_input(const at::Tensor& hidden) override { return hidden; }
  ScalePlan scale_plan() const override { return plan; }
  void divide_output(const std::string& producer, const at::Tensor& scale) override {
    if (producer == "norm") norm_ = norm_ / scale;
  }
  void try_weights(const std::string& linear, const at::Tensor& weights) override {
    weights_[linear] = weights;
  }

  ScalePlan plan = {{{0, "norm", false, 1}, {1, "up", true, 1}}, {"gate"}};

 private:
  std::vector<Stage> stages_ = {{{"gate", "up"}}, {{"down"}}};
  at::Tensor norm_;
  std::map<std::string, at::Tensor> weights_;
};

struct Prepared {
  std::unique_ptr<TwoStages> model;
  std::vector<at::Tensor> inputs;
  std::unique_ptr<CalibrationStats> first, second;
  BlockProblem problem;
};

Prepared two_stages(bool clip) {
  Prepared p;
  auto norm = at::ones({24});
  norm[3] = 30;  // one input column is much larger than the others
  p.model = std::make_unique<TwoStages>(norm, random({32, 24}, 5), random({32, 24}, 6),
                                        random({24, 32}, 7));
  for (int64_t i = 0; i < 3; ++i) p.inputs.push_back(random({2, 16, 24}, 8 + i));
  p.first = std::make_unique<CalibrationStats>(24, at::kCPU);
  p.second = std::make_unique<CalibrationStats>(32, at::kCPU);
  for (const auto& x : p.inputs) {
    auto a = p.model->begin(x);
    p.first->add(a.input);
    p.model->run_stage(0, a);
    p.second->add(a.input);
  }
  const QuantConfig quant{.bits = 3, .group_size = -1, .scale_dtype = ScaleDtype::kFloat32};
  p.problem.model = p.model.get();
  p.problem.inputs = &p.inputs;
  p.problem.stages = {{{"gate", "block.gate", quant, true}, {"up", "block.up", quant, true}},
                      {{"down", "block.down", quant, true}}};
  p.problem.stats = {p.first.get(), p.second.get()};
  p.problem.method.clip = clip;
  return p;
}

double output_error(TwoStages& model, const std::vector<at::Tensor>& inputs,
                    const std::vector<at::Tensor>& wanted) {
  double sum = 0;
  for (size_t i = 0; i < inputs.size(); ++i)
    sum += (model.run_block(inputs[i]) - wanted[i]).square().sum().item<double>();
  return sum;
}

TEST(Awq, MovedScalesLeaveTheDenseBlockAsItWas) {
  auto p = two_stages(false);
  std::vector<at::Tensor> before;
  for (const auto& x : p.inputs) before.push_back(p.model->run_block(x));
  const auto method = quantizers().at("awq").make();
  const auto preparation = method->prepare_block(p.problem);
  ASSERT_EQ(preparation.divided.size(), 2u);
  EXPECT_FALSE(at::allclose(preparation.divided.at("norm"), at::ones({24})));
  EXPECT_NEAR(output_error(*p.model, p.inputs, before), 0, 1e-6) << "searching changed the model";
  for (const auto& [producer, scale] : preparation.divided) p.model->divide_output(producer, scale);
  for (const auto& [linear, moved] : preparation.moved) {
    auto w = p.model->weight(linear);
    if (moved.columns.defined()) w = w * moved.columns;
    if (moved.rows.defined()) w = w / moved.rows.unsqueeze(1);
    p.model->try_weights(linear, w);
  }
  double size = 0;
  for (const auto& y : before) size += y.square().sum().item<double>();
  EXPECT_LT(output_error(*p.model, p.inputs, before), 1e-10 * size);
}

TEST(Awq, BeatsRoundToNearestWhereOneInputIsLargeAndErrorsAreThoseOfTheLoadedWeights) {
  for (const bool clip : {false, true}) {
    auto p = two_stages(clip);
    std::vector<at::Tensor> dense;
    for (const auto& x : p.inputs) dense.push_back(p.model->run_block(x));
    auto rtn = two_stages(clip);
    const auto method = quantizers().at("awq").make();
    const auto preparation = method->prepare_block(p.problem);
    for (const auto& [producer, scale] : preparation.divided)
      p.model->divide_output(producer, scale);
    for (size_t stage = 0; stage < 2; ++stage)
      for (const auto& linear : p.problem.stages[stage]) {
        auto problem = layer_problem(p.model->weight(linear.name), p.problem.stats[stage]);
        problem.quant = linear.quant;
        problem.method = p.problem.method;
        problem.moved = preparation.moved.at(linear.name);
        if (preparation.clip_moments.count(linear.name) > 0)
          problem.clip_moments = preparation.clip_moments.at(linear.name);
        const auto result = method->quantize(problem);
        // The error in terms of the weights as loaded: W - diag(rows) Q diag(1 / columns).
        auto back = result.quantized().dequantize(at::kFloat);
        if (problem.moved.columns.defined()) back = back / problem.moved.columns;
        if (problem.moved.rows.defined()) back = back * problem.moved.rows.unsqueeze(1);
        const auto h = problem.stats->hessian();
        EXPECT_NEAR(*result.health.relative_error,
                    quadratic_form(problem.weight - back, h) / quadratic_form(problem.weight, h),
                    1e-6)
            << linear.name;
        EXPECT_GT(*result.health.relative_error_rtn, 0);
        const auto plain = test::quantize_with("rtn", [&] {
          auto same = problem;
          same.moved = {};
          return same;
        }());
        rtn.model->replace(linear.name, plain.replacement);
        p.model->replace(linear.name, result.replacement);
      }
    EXPECT_LT(output_error(*p.model, p.inputs, dense),
              0.8 * output_error(*rtn.model, p.inputs, dense))
        << "clip " << clip;
  }
}

TEST(Awq, ScalesStayWhereALinearOfTheStageIsNotItsOwn) {
  auto p = two_stages(false);
  p.problem.stages[0][0].ours = false;  // gate
  const auto preparation = quantizers().at("awq").make()->prepare_block(p.problem);
  EXPECT_EQ(preparation.divided.count("norm"), 0u);
  EXPECT_EQ(preparation.divided.count("up"), 1u);
  EXPECT_EQ(preparation.moved.at("up").kept,
            "scales did not move, because gate is not quantized by awq");
  auto problem = layer_problem(p.model->weight("up"), p.first.get());
  problem.moved = preparation.moved.at("up");
  EXPECT_EQ(test::quantize_with("awq", problem).health.status, "rtn: " + problem.moved.kept);
  p.problem.stages[0][1].ours = false;  // up, which would have to divide its rows
  EXPECT_TRUE(quantizers().at("awq").make()->prepare_block(p.problem).divided.empty());
}

// As o where query heads share keys and values: that is the model's, not a fault, and is said.
TEST(Awq, ALayerWithoutAPlaceForScalesSaysSo) {
  auto p = two_stages(false);
  const auto method = quantizers().at("awq").make();
  const auto note_of = [&](const std::string& linear, const CalibrationStats* stats) {
    const auto moved = method->prepare_block(p.problem).moved;
    auto problem = layer_problem(p.model->weight(linear), stats);
    if (moved.contains(linear)) problem.moved = moved.at(linear);
    const auto health = method->quantize(problem).health;
    EXPECT_EQ(health.status, "ok");
    return health.note;
  };
  EXPECT_EQ(note_of("down", p.second.get()), "");
  p.model->plan.moves.pop_back();
  EXPECT_THAT(note_of("down", p.second.get()), HasSubstr("without scales"));
  EXPECT_EQ(note_of("up", p.first.get()), "");
}

TEST(Awq, ReferenceRefusesASymmetricGrid) {
  const auto stats = stats_of(random({1, 8, 6}, 9));
  auto problem = layer_problem(random({3, 6}, 10), &stats);
  problem.method.awq_reference = true;
  problem.quant.symmetric = true;
  EXPECT_THAT(message_of([&] { test::quantize_with("awq", problem); }),
              HasSubstr("expected quant.symmetric: false with awq_protocol: reference"));
}

}  // namespace
}  // namespace gptqb
