// The method `awq`: scales move into the norms, linears and activations before each stage, then
// every linear is rounded to nearest on its own grid, clipped where that helps (Lin et al. 2023).
//
// `matched` gives AWQ what GPTQ gets: the same tokens, inputs, grid rule and f32 arithmetic, so
// that a table compares methods and nothing else. `reference` follows llm-awq: every step rounded
// in the model's dtype, errors taken on outputs and not on moments, a grid that need not include 0,
// clipping judged on 512 tokens or a few more, dense inputs (shared/reference/protocol.md section
// 10; compared with llm-awq's own numbers in tests/models/awq_golden_test.cpp).
#include "methods/awq.h"

#include <algorithm>
#include <limits>

#include "common/error.h"
#include "common/progress.h"
#include "methods/clock.h"
#include "methods/layer_health.h"
#include "methods/quadratic_form.h"

namespace gptqb {
namespace {

constexpr int64_t kClipTokens = 512;

GridRule rule_for(const QuantConfig& quant, const MethodConfig& method,
                  const CompatPolicy& compat) {
  return {quant, compat.reference_one_sided, !method.awq_reference};
}

at::ScalarType arithmetic(const MethodConfig& method, const at::Tensor& weight) {
  return method.awq_reference ? weight.scalar_type() : at::kFloat;
}

// What the search needs of one stage's inputs on the calibration windows.
struct StageInputs {
  std::vector<at::Tensor> chunks;  // kept only where the stage is judged by running it
  at::Tensor sum_abs;              // f64 [in], of the matched protocol
  int64_t tokens = 0;
  std::vector<at::Tensor> clip_rows;  // every so many tokens, of the reference protocol
};

class Search {
 public:
  explicit Search(const BlockProblem& problem)
      : problem_(problem), model_(*problem.model), plan_(model_.scale_plan()) {}

  BlockPreparation run() {
    collect();
    BlockPreparation result;
    for (const ScaleMove& move : plan_.moves) {
      throw_if_interrupted();
      if (left_out(move)) continue;
      if (const std::string reason = hindrance(move); !reason.empty()) {
        for (const BlockLinear& linear : problem_.stages[move.stage])
          if (linear.ours) result.moved[linear.name].kept = reason;
        continue;
      }
      const auto scales = best_scales(move);
      result.divided[move.producer] = scales;
      for (const BlockLinear& linear : problem_.stages[move.stage])
        result.moved[linear.name].columns = scales;
      if (move.producer_is_linear) result.moved[move.producer].rows = scales;
    }
    add_clip_data(result);
    return result;
  }

 private:
  bool reference() const { return problem_.method.awq_reference; }
  bool left_out(const ScaleMove& move) const { return reference() && move.not_in_llm_awq; }

  // One pass over the dense block.
  void collect() {
    inputs_.resize(problem_.stages.size());
    int64_t total = 0;
    for (const auto& hidden : *problem_.inputs) total += hidden.size(0) * hidden.size(1);
    const int64_t stride = std::max<int64_t>(1, total / kClipTokens);
    for (const auto& hidden : *problem_.inputs) {
      throw_if_interrupted();
      auto activations = model_.begin(hidden.to(model_.device()));
      for (size_t stage = 0; stage < inputs_.size(); ++stage) {
        add(inputs_[stage], activations.input, stride, judged_by_running(stage));
        if (stage + 1 < inputs_.size()) model_.run_stage(stage, activations);
      }
    }
  }

  void add(StageInputs& stage, const at::Tensor& input, int64_t stride, bool keep) const {
    const auto flat = input.reshape({-1, input.size(-1)});
    if (!reference()) {
      const auto sum = flat.abs().sum(0, /*keepdim=*/false, at::kDouble);
      stage.sum_abs = stage.sum_abs.defined() ? stage.sum_abs + sum : sum;
    } else if (problem_.method.clip) {
      const int64_t first = (stride - stage.tokens % stride) % stride;
      if (first < flat.size(0))
        stage.clip_rows.push_back(flat.slice(0, first, flat.size(0), stride).contiguous());
    }
    stage.tokens += flat.size(0);
    if (keep) stage.chunks.push_back(input);
  }

  bool judged_by_running(size_t stage) const {
    return std::any_of(plan_.moves.begin(), plan_.moves.end(), [&](const ScaleMove& move) {
      return move.stage == stage && !judged_by_moments(move) && !left_out(move);
    });
  }

  // One linear, judged by what it puts out itself.
  bool judged_alone(const ScaleMove& move) const {
    return move.judged_through == move.stage && problem_.stages[move.stage].size() == 1;
  }

  // Then the moments of its input say it all, unless rounding of the outputs is to count.
  bool judged_by_moments(const ScaleMove& move) const { return judged_alone(move) && !reference(); }

  // Why scales cannot move there: all linears that read them, and one that makes them, must be
  // quantized by this method. Empty: they can.
  std::string hindrance(const ScaleMove& move) const {
    for (size_t stage = 0; stage < problem_.stages.size(); ++stage)
      for (const BlockLinear& linear : problem_.stages[stage])
        if (!linear.ours &&
            (stage == move.stage || (move.producer_is_linear && linear.name == move.producer)))
          return "scales did not move, because " + linear.name + " is not quantized by awq";
    return "";
  }

  at::Tensor mean_abs(size_t stage) const {
    const auto& inputs = inputs_[stage];
    // One mean in the model's dtype, as llm-awq takes it. A unit in the last place is seen again:
    // of a group clipped on both sides, -low / scale is half a code, and the zero point hangs on
    // it.
    if (reference()) {
      const auto all = at::cat(inputs.chunks);
      return all.abs().view({-1, all.size(-1)}).mean(0);
    }
    return (inputs.sum_abs / static_cast<double>(inputs.tokens)).to(at::kFloat);
  }

  GridRule rule(const BlockLinear& linear) const {
    return rule_for(linear.quant, problem_.method, problem_.compat);
  }

  at::Tensor dense_weight(const BlockLinear& linear) const {
    const auto weight = model_.weight(linear.name);
    return weight.to(arithmetic(problem_.method, weight));
  }

  at::Tensor best_scales(const ScaleMove& move) {
    const auto mean = mean_abs(move.stage);
    std::vector<at::Tensor> weights;
    for (const BlockLinear& linear : problem_.stages[move.stage])
      weights.push_back(dense_weight(linear));
    const bool running = !judged_by_moments(move);
    const auto wanted = running ? outputs(move) : std::vector<at::Tensor>{};
    const auto h = running ? at::Tensor() : problem_.stats[move.stage]->hessian();

    at::Tensor best;
    double smallest = std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < problem_.method.alpha_grid; ++i) {
      throw_if_interrupted();
      const auto scales = awq_scales(
          mean, static_cast<double>(i) / static_cast<double>(problem_.method.alpha_grid));
      const auto& linears = problem_.stages[move.stage];
      double error = 0;
      if (running) {
        for (size_t k = 0; k < linears.size(); ++k)
          model_.try_weights(linears[k].name, round_scaled(weights[k], scales, rule(linears[k])));
        error = difference(outputs(move), wanted);
      } else {
        const auto e = round_scaled(weights[0], scales, rule(linears[0])) - weights[0];
        error = quadratic_form(e.to(at::kFloat), h);
      }
      if (error < smallest) {
        smallest = error;
        best = scales.to(at::kFloat);
      }
    }
    if (running)
      for (size_t k = 0; k < weights.size(); ++k)
        model_.try_weights(problem_.stages[move.stage][k].name, weights[k]);
    if (!best.defined())
      throw Error(problem_.stages[move.stage].front().layer,
                  "expected a finite output error for at least one exponent, got none");
    return best;
  }

  // What the search compares, by chunk: in most cases what the judged stages add to the residual.
  std::vector<at::Tensor> outputs(const ScaleMove& move) const {
    std::vector<at::Tensor> result;
    for (size_t i = 0; i < inputs_[move.stage].chunks.size(); ++i)
      result.push_back(
          output(move, inputs_[move.stage].chunks[i], (*problem_.inputs)[i].to(model_.device())));
    return result;
  }

  at::Tensor output(const ScaleMove& move, const at::Tensor& input,
                    const at::Tensor& hidden) const {
    if (reference() && move.llm_awq_runs_block) return model_.run_block(input);
    if (judged_alone(move))
      return model_.run_linear(problem_.stages[move.stage].front().name, input);
    BlockActivations activations{at::zeros_like(hidden), input};
    for (size_t stage = move.stage; stage <= move.judged_through; ++stage)
      model_.run_stage(stage, activations);
    return activations.residual;
  }

  static double difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
    double sum = 0;
    for (size_t i = 0; i < a.size(); ++i)
      sum += (a[i] - b[i]).to(at::kFloat).square().sum(at::kDouble).item<double>();
    return sum;
  }

  // The moved inputs that clipping is searched on: moments of all tokens, or llm-awq's sample.
  void add_clip_data(BlockPreparation& result) const {
    if (!problem_.method.clip) return;
    for (size_t stage = 0; stage < problem_.stages.size(); ++stage) {
      at::Tensor sample;
      for (const BlockLinear& linear : problem_.stages[stage]) {
        const auto& scores = plan_.score_linears;
        if (!linear.ours || std::count(scores.begin(), scores.end(), linear.name) > 0) continue;
        const auto moved = result.moved.find(linear.name);
        const auto scale = moved == result.moved.end() ? at::Tensor() : moved->second.columns;
        if (!reference()) {
          result.clip_moments[linear.name] = moved_moments(stage, scale);
          continue;
        }
        // All linears of a stage that read moved inputs read the same ones.
        if (!sample.defined()) {
          sample = at::cat(inputs_[stage].clip_rows);
          if (scale.defined()) sample = sample / scale.to(sample.scalar_type());
        }
        result.clip_inputs[linear.name] = sample;
      }
    }
  }

  at::Tensor moved_moments(size_t stage, const at::Tensor& scale) const {
    const auto moments = problem_.stats[stage]->hessian();
    if (!scale.defined()) return moments;
    const auto inverse = scale.reciprocal();
    return moments * inverse.unsqueeze(0) * inverse.unsqueeze(1);
  }

  const BlockProblem& problem_;
  BlockModel& model_;
  ScalePlan plan_;
  std::vector<StageInputs> inputs_;
};

bool is_silent(const CalibrationStats& stats) {
  return !stats.hessian().diagonal().any().item<bool>();
}

class Awq : public Quantizer {
 public:
  bool needs_stats() const override { return true; }
  bool prepares_blocks() const override { return true; }

  BlockPreparation prepare_block(const BlockProblem& problem) const override {
    return Search(problem).run();
  }

  LayerResult quantize(const LinearProblem& problem) const override {
    const Stopwatch watch(problem.weight.device());
    if (problem.method.awq_reference && problem.quant.symmetric)
      throw Error(problem.layer,
                  "expected quant.symmetric: false with awq_protocol: reference, whose grid is "
                  "asymmetric, got true. Use awq_protocol: matched");
    const auto rule = rule_for(problem.quant, problem.method, problem.compat);
    auto weights = checked_weights(problem, arithmetic(problem.method, problem.weight));
    auto health = start_health(problem, "awq");
    if (problem.moved.columns.defined())
      weights = weights * problem.moved.columns.to(weights.scalar_type()).unsqueeze(0);
    if (problem.moved.rows.defined())
      weights = weights / problem.moved.rows.to(weights.scalar_type()).unsqueeze(1);
    const auto& method = problem.method;
    if (problem.clip_moments.defined())
      weights =
          clip_weights(weights, problem.clip_moments, rule, method.clip_steps, method.clip_shrink);
    if (problem.clip_inputs.defined())
      weights = clip_weights_on(weights, problem.clip_inputs, rule, method.clip_steps,
                                method.clip_shrink);
    LayerResult result{round_to_nearest(weights, rule, problem.layer), std::move(health)};
    // Nothing to choose scales by: what is left is round to nearest, and says so.
    if (problem.stats != nullptr && problem.stats->tokens() == 0)
      result.health.status = "rtn: no calibration token reached this layer";
    else if (!problem.moved.kept.empty())
      result.health.status = "rtn: " + problem.moved.kept;
    else if (problem.stats != nullptr && is_silent(*problem.stats))
      result.health.status = "rtn: every input of this layer was 0 in calibration";
    // Heads that share keys and values, a norm that feeds the residual too, the head's norm.
    const bool no_place = !problem.moved.columns.defined() && problem.moved.kept.empty();
    if (no_place && result.health.note.empty())
      result.health.note =
          "awq rounded it without scales, since what makes its inputs cannot take them";
    result.health.seconds_solve = watch.seconds();
    result.health.seconds_errors = seconds_of(problem.weight.device(), [&] {
      record_errors(problem, as_loaded(result.quantized(), problem.moved), result.health);
    });
    return result;
  }

 private:
  // The codes as they act on the inputs and outputs that the linear had before scales moved, so
  // that errors compare with those of other methods.
  static LinearReplacement as_loaded(QuantizedLinear quantized, const MovedScales& moved) {
    if (moved.rows.defined()) quantized.scales = quantized.scales * moved.rows.unsqueeze(1);
    if (!moved.columns.defined()) return quantized;
    return TransformedLinear{std::move(quantized), moved.columns.reciprocal()};
  }
};

}  // namespace

std::unique_ptr<Quantizer> make_awq() { return std::make_unique<Awq>(); }

}  // namespace gptqb
