// Which numerical choices a cell makes.
#pragma once

#include <map>
#include <string>

#include "runner/cell.h"

namespace gptqb {

// Every numerical choice in force for `cell`, by topic (docs/architecture.md, Policies that move
// digits): which of the published code's quirks it follows, and what follows from its method.
std::map<std::string, std::string> policies_of(const Cell& cell);

}  // namespace gptqb
