// An entry of `expect`: a value that a cell's metric is held against.
#pragma once

#include <optional>
#include <string>

#include "runner/yaml_tree.h"

namespace gptqb {

// Exactly one of `value` (with one tolerance), `at_most` and `at_least` is set.
struct Expectation {
  std::string metric;  // "perplexity.wikitext2", "seconds.quantize", "layer.<full layer name>.loss"
  std::optional<double> value;
  std::optional<double> tolerance_absolute;  // of `value`, in its unit
  std::optional<double> tolerance_relative;  // of `value`, as a share of it
  std::optional<double> at_most;
  std::optional<double> at_least;
  std::string source;      // where the value was published
  std::string confidence;  // how sure the value is, in the words of the experiment file
  std::string where;       // the entry's `where` as text: "method.name: gptq, quant.bits: 4"
  std::string note;        // what a reader must know beside the value: another printing of it ...
  // How the cell's data or settings differ from what the value stands on; then it gets no verdict.
  std::string variant;
  Position position;  // of the entry
};

}  // namespace gptqb
