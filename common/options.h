// The two building blocks of a table of options: bounds of a number, and the words of an enum.
//
// The one table of all keys is runner/schema.cpp; defaults, checking, `gptq-bench schema` and the
// record come from it.
#pragma once

#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

namespace gptqb {

// Inclusive bounds of a number.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

// The spelling and the value of each case of an enum, in the order `schema` prints them.
template <class Enum>
using Choices = std::initializer_list<std::pair<const char*, Enum>>;

}  // namespace gptqb
