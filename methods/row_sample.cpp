#include "methods/row_sample.h"

#include "common/error.h"
#include "methods/grid.h"

namespace gptqb {
namespace {

// All rows rounded to nearest, their columns grouped as those of `like`.
QuantizedLinear rounded_like(const QuantizedLinear& like, const LinearProblem& problem) {
  const GridRule rule{problem.quant, problem.compat.reference_one_sided};
  const auto weights = problem.weight.to(at::kFloat);
  if (!like.group_of_input.defined()) return round_to_nearest(weights, rule, problem.layer);
  const auto order =
      at::argsort(like.group_of_input, /*stable=*/true, /*dim=*/0, /*descending=*/false);
  auto whole = round_to_nearest(weights.index_select(1, order), rule, problem.layer);
  whole.codes = whole.codes.index_select(1, at::argsort(order)).contiguous();
  whole.group_of_input = like.group_of_input;
  return whole;
}

}  // namespace

at::Tensor evenly_spaced_rows(int64_t rows, int64_t wanted) {
  return at::arange(wanted, at::kLong).mul_(rows).div_(wanted, "floor");
}

LayerResult quantize_rows(const Quantizer& quantizer, const LinearProblem& problem) {
  const int64_t wanted = problem.method.rows;
  if (wanted == 0 || wanted >= problem.weight.size(0)) return quantizer.quantize(problem);

  if (problem.moved.columns.defined() || problem.moved.rows.defined())
    throw Error(problem.layer,
                "expected all rows for a method that moves scales between linears, "
                "got method.rows " +
                    std::to_string(wanted) + ". Leave it out");
  const auto rows = evenly_spaced_rows(problem.weight.size(0), wanted).to(problem.weight.device());
  LinearProblem sample = problem;
  // Rounding that ignores groups would give the solved rows grids that the others do not have.
  sample.compat.reference_rtn_groups = false;
  sample.weight = problem.weight.index_select(0, rows);
  auto result = quantizer.quantize(sample);
  const auto* solved = std::get_if<QuantizedLinear>(&result.replacement.form);
  if (solved == nullptr)
    throw Error(problem.layer,
                "expected a method that solves rows on their own, got one that answers with more "
                "than codes. Leave method.rows out");
  auto whole = rounded_like(*solved, problem);
  whole.codes.index_copy_(0, rows, solved->codes);
  if (whole.ternary()) {
    whole.levels.index_copy_(0, rows, solved->levels);
  } else {
    whole.scales.index_copy_(0, rows, solved->scales);
    whole.zeros.index_copy_(0, rows, solved->zeros);
  }
  result.health.rows_solved = wanted;
  result.replacement = std::move(whole);
  return result;
}

}  // namespace gptqb
