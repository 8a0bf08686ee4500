// The roofline plot of a cell that measures kernels (Williams et al. 2009): rate against operations
// a byte, under the two ceilings that were measured in the same run.
#pragma once

#include <string>

#include "runner/record.h"

namespace gptqb {

// An SVG file, or empty if the record has no kernels. A point is one kernel on one problem, with
// its description as a tooltip; its place is 2 m n k operations over the bytes that must move at
// least (weights, activations and result once each).
std::string roofline_svg(const Record& record);

}  // namespace gptqb
