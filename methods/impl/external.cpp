// The method `external`: a program of the user's own finds the codes (or weights), and is scored
// like any other method. What it is given and gives back: docs/external.md.
#include <limits>

#include "common/error.h"
#include "common/text.h"
#include "methods/clock.h"
#include "methods/external_solver.h"
#include "methods/hessian.h"
#include "methods/layer_health.h"

namespace gptqb {
namespace {

std::string size_text(int64_t rows, int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

std::string largest_text(at::ScalarType dtype) {
  if (dtype == at::kHalf) return number_text(std::numeric_limits<c10::Half>::max());
  if (dtype == at::kBFloat16) return number_text(std::numeric_limits<c10::BFloat16>::max());
  return number_text(std::numeric_limits<float>::max());
}

// Finite in f32, and infinite where the model computes: nothing after this layer would be a number.
void check_range(const LinearReplacement& answer, const LinearProblem& problem) {
  const auto dtype = problem.weight.scalar_type();
  const auto bad = answer.effective_weights(dtype).isfinite().logical_not();
  if (!bad.any().item<bool>()) return;
  const int64_t first = bad.reshape({-1}).to(at::kInt).argmax().item<int64_t>();
  const int64_t row = first / bad.size(1);
  const int64_t column = first % bad.size(1);
  const double value = answer.effective_weights(at::kFloat)[row][column].item<double>();
  throw Error(problem.layer, "expected weights of at most " + largest_text(dtype) +
                                 ", the largest number of the model's dtype, got " +
                                 number_text(value) + " in row " + std::to_string(row) +
                                 ", column " + std::to_string(column));
}

class External : public Quantizer {
 public:
  bool needs_stats() const override { return true; }

  LayerResult quantize(const LinearProblem& problem) const override {
    if (problem.external == nullptr)
      throw Error(problem.layer,
                  "expected a program for method external, got none. Set method.command");
    require_stats(problem);
    const Stopwatch watch(problem.weight.device());
    checked_weights(problem, at::kFloat);
    check_calibration(*problem.stats, problem.stats->hessian(), problem.layer);

    LayerResult result{problem.external->solve(problem).to(problem.weight.device()),
                       start_health(problem, "external")};
    const LinearReplacement& answer = result.replacement;
    answer.validate(problem.layer);
    if (answer.out_features() != problem.weight.size(0) ||
        answer.in_features() != problem.weight.size(1))
      throw Error(problem.layer, "expected an answer of " +
                                     size_text(problem.weight.size(0), problem.weight.size(1)) +
                                     ", got " +
                                     size_text(answer.out_features(), answer.in_features()));
    check_range(answer, problem);
    if (answer.codes() == nullptr) result.health.bits = result.health.group_size = 0;
    result.health.seconds_solve = watch.seconds();
    result.health.seconds_errors =
        seconds_of(problem.weight.device(), [&] { record_errors(problem, answer, result.health); });
    return result;
  }
};

}  // namespace

std::unique_ptr<Quantizer> make_external() { return std::make_unique<External>(); }

}  // namespace gptqb
