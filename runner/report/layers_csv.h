// layers.csv: one row for each layer of each cell.
#pragma once

#include <string>
#include <vector>

#include "runner/record.h"

namespace gptqb {

// Columns as in docs/architecture.md, in that order; numbers that do not apply to a layer are
// empty.
std::string layers_csv(const std::vector<Record>& records);

}  // namespace gptqb
