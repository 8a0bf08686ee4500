#include "methods/quant_config.h"

#include <cmath>

#include "common/error.h"

namespace gptqb {

void QuantConfig::validate(const std::string& where) const {
  const auto fail = [&](const std::string& field, const std::string& expected,
                        const std::string& got) {
    throw Error(where + "." + field, "expected " + expected + ", got " + got);
  };
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8 && bits != kTernary)
    fail("bits", "2, 3, 4, 8 or ternary", std::to_string(bits));
  if (group_size == 0 || group_size < -1)
    fail("group_size", "-1 (the whole row) or at least 1", std::to_string(group_size));
  if (ternary() && group_size > 0 && group_size < kSmallestTernaryGroup)
    fail("group_size", "-1 or at least 8 for ternary", std::to_string(group_size));
  if (ternary() && grid_search != GridSearch::kNone)
    fail("grid_search", "none for ternary, whose levels are the group's own smallest and largest",
         "mse");
  if (!(grid_norm > 0) || !std::isfinite(grid_norm))
    fail("grid_norm", "a positive number", std::to_string(grid_norm));
  if (grid_steps < 1) fail("grid_steps", "at least 1", std::to_string(grid_steps));
  if (!(grid_shrink > 0) || grid_shrink >= 1)
    fail("grid_shrink", "a number above 0 and below 1", std::to_string(grid_shrink));
}

}  // namespace gptqb
