// Whole numbers of whole things.
#pragma once

#include <cstdint>

namespace gptqb {

// How many of `part` > 0 hold `total` >= 0.
constexpr int64_t divide_up(int64_t total, int64_t part) { return (total + part - 1) / part; }

// The least multiple of `multiple` > 0 that is not below `value` >= 0.
constexpr int64_t round_up(int64_t value, int64_t multiple) {
  return divide_up(value, multiple) * multiple;
}

}  // namespace gptqb
