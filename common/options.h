// How an options struct describes its own keys, once, for defaults, YAML parsing, `schema` and the record.
//
// A struct offers `template <class Visitor> void visit(Visitor& v)` and calls, for each field,
//     v.option("damping", damping, Range{0, 1}, "share of the mean of diag(H) added to the diagonal");
//     v.choice("solver", solver, {{"fast", Solver::kFast}, {"reference", Solver::kReference}}, "...");
// Field types are bool, int64_t, double and std::string; a choice is any enum. Visitors live where they are
// needed (runner/schema.cpp parses, prints and records), so this header depends on nothing.
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
