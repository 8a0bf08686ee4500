// Round to nearest: the baseline of every table. Needs no data; with statistics it reports the same
// errors as GPTQ.
#include "methods/clock.h"
#include "methods/grid.h"
#include "methods/layer_health.h"

namespace gptqb {
namespace {

class RoundToNearest : public Quantizer {
 public:
  bool needs_stats() const override { return false; }

  LayerResult quantize(const LinearProblem& given) const override {
    const Stopwatch watch(given.weight.device());
    LinearProblem problem = given;
    // The published code rounds whole rows whatever group size it is given (protocol.md section 5).
    if (problem.compat.reference_rtn_groups) problem.quant.group_size = -1;
    // The published code rounds the loaded weights as they are; its GPTQ widens them to float32
    // first.
    const auto dtype =
        problem.compat.reference_rtn_dtype ? problem.weight.scalar_type() : at::kFloat;
    const auto weights = checked_weights(problem, dtype);
    const GridRule rule{problem.quant, problem.compat.reference_one_sided};
    LayerResult result{round_to_nearest(weights, rule, problem.layer),
                       start_health(problem, "rtn")};
    result.health.seconds_solve = watch.seconds();
    result.health.seconds_errors = seconds_of(
        weights.device(), [&] { record_errors(problem, result.replacement, result.health); });
    return result;
  }
};

}  // namespace

std::unique_ptr<Quantizer> make_rtn() { return std::make_unique<RoundToNearest>(); }

}  // namespace gptqb
