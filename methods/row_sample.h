// Solving a sample of a layer's rows, where all of them cannot be afforded.
//
// Rows are independent of each other once H is known, so a layer's errors can be estimated from
// some of them. The rows are evenly spaced and the same for every method and setting, so that
// methods are compared on the same rows. All other rows keep RTN codes: the layer stays complete,
// but the model is no longer that of the method, and error columns count the solved rows only.
#pragma once

#include "methods/quantizer.h"

namespace gptqb {

// i64 [wanted], on the CPU: floor(k rows / wanted). 1 <= wanted <= rows.
at::Tensor evenly_spaced_rows(int64_t rows, int64_t wanted);

// quantizer.quantize() on problem.method.rows rows of the layer, or on all of them if that is 0 or
// not fewer. Of a sample, health counts the solved rows only and says how many they are. Throws
// Error naming the layer if the method answers with anything but codes.
LayerResult quantize_rows(const Quantizer& quantizer, const LinearProblem& problem);

}  // namespace gptqb
