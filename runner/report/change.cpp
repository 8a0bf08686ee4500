#include "runner/report/change.h"

namespace gptqb {

const char* change_name(Change change) {
  switch (change) {
    case Change::kSame:
      return "SAME";
    case Change::kBetter:
      return "BETTER";
    case Change::kWorse:
      return "WORSE";
    case Change::kFaster:
      return "FASTER";
    case Change::kSlower:
      return "SLOWER";
    case Change::kUnclear:
      return "UNCLEAR";
    case Change::kMissing:
      return "MISSING";
    case Change::kNew:
      return "NEW";
    case Change::kNotComparable:
      return "NOT COMPARABLE";
  }
  return "";
}

bool trips(Change change) {
  return change == Change::kWorse || change == Change::kSlower || change == Change::kMissing;
}

}  // namespace gptqb
