// What every method records about a layer, and the checks that come before any of them.
#pragma once

#include "methods/quantizer.h"

namespace gptqb {

// The weights of `problem` in `dtype`. Throws Error naming the layer, row and column of the first
// weight that is not finite, and a shape that does not fit the statistics.
at::Tensor checked_weights(const LinearProblem& problem, at::ScalarType dtype);

// Throws Error naming the layer if there are no statistics.
void require_stats(const LinearProblem& problem);

// Identity, counts and whatever calibration says, before the errors are known.
LayerHealth start_health(const LinearProblem& problem, const std::string& method);

// Fills the error columns for `replacement`: relative_error, _heldout, _rtn, clipped. Without
// (finite) statistics the errors stay empty.
void record_errors(const LinearProblem& problem, const LinearReplacement& replacement,
                   LayerHealth& health);

// RTN in place of another method: its codes, a status "rtn: <reason>", and its errors.
LayerResult fall_back_to_rtn(const LinearProblem& problem, LayerHealth health,
                             const std::string& reason);

}  // namespace gptqb
