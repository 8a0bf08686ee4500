// kernels.csv: one row for each kernel on each problem of each cell that measures kernels.
#pragma once

#include <string>
#include <vector>

#include "runner/record.h"

namespace gptqb {

// Columns as in docs/architecture.md, in that order, then what the measurement stands on. A dense
// product, with which kernels are compared, is a row of its own: `bits` 16 (32 on the CPU), no
// group size. Empty if no record has kernels.
std::string kernels_csv(const std::vector<Record>& records);

}  // namespace gptqb
