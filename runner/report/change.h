// What became of a metric between two sets of results.
#pragma once

#include <string>

namespace gptqb {

enum class Change {
  kSame,
  kBetter,
  kWorse,
  kFaster,
  kSlower,
  kUnclear,  // it moved, but by what is known it may be chance
  kMissing,
  kNew,
  kNotComparable
};

// "SAME", "BETTER", "WORSE", "FASTER", "SLOWER", "UNCLEAR", "MISSING", "NEW", "NOT COMPARABLE"
const char* change_name(Change change);

// Whether it trips the gate: WORSE, SLOWER, MISSING.
bool trips(Change change);

}  // namespace gptqb
