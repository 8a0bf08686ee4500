// The method `llm_int8`: LLM.int8() as the 8-bit comparator. It rounds activations too, so its rows
// say W8A8 and stand in no weight-only column. `quant` does not apply: the grid is the method's
// own.
#include "methods/clock.h"
#include "methods/int8_linear.h"
#include "methods/layer_health.h"

namespace gptqb {
namespace {

class LlmInt8 : public Quantizer {
 public:
  bool needs_stats() const override { return false; }
  std::optional<double> outlier_threshold(const MethodConfig& method) const override {
    return method.outlier_threshold;
  }

  LayerResult quantize(const LinearProblem& given) const override {
    const Stopwatch watch(given.weight.device());
    LinearProblem problem = given;
    // What RTN is compared with: the same bits on a grid a row.
    problem.quant = {
        .bits = 8, .group_size = -1, .symmetric = true, .scale_dtype = ScaleDtype::kFloat32};
    const auto weights = checked_weights(problem, at::kFloat);
    auto health = start_health(problem, "llm_int8");
    if (problem.stats != nullptr) health.outlier_share = problem.stats->outlier_share();
    LayerResult result{quantize_int8(weights, problem.method.outlier_threshold), std::move(health)};
    result.health.seconds_solve = watch.seconds();
    result.health.seconds_errors = seconds_of(
        weights.device(), [&] { record_errors(problem, result.replacement, result.health); });
    return result;
  }
};

}  // namespace

std::unique_ptr<Quantizer> make_llm_int8() { return std::make_unique<LlmInt8>(); }

}  // namespace gptqb
