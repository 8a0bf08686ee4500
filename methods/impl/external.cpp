// The method `external`: a program of the user's own finds the codes (or weights), and is scored
// like any other method. What it is given and gives back: docs/external.md.
#include "common/error.h"
#include "methods/clock.h"
#include "methods/external_solver.h"
#include "methods/hessian.h"
#include "methods/layer_health.h"

namespace gptqb {
namespace {

std::string size_text(int64_t rows, int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

class External : public Quantizer {
 public:
  bool needs_stats() const override { return true; }

  LayerResult quantize(const LinearProblem& problem) const override {
    if (problem.external == nullptr)
      throw Error(problem.layer,
                  "expected a program for method external, got none. Set method.command");
    if (problem.stats == nullptr)
      throw Error(problem.layer, "expected calibration statistics, got none");
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
    if (answer.codes() == nullptr) result.health.bits = result.health.group_size = 0;
    record_errors(problem, answer, result.health);
    result.health.seconds_solve = watch.seconds();
    return result;
  }
};

}  // namespace

std::unique_ptr<Quantizer> make_external() { return std::make_unique<External>(); }

}  // namespace gptqb
