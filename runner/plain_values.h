// Values of sections whose entries are no keys of the table: expectations and claims.
#pragma once

#include <optional>
#include <string>

#include "runner/experiment.h"
#include "runner/yaml_tree.h"

namespace gptqb {

// A text as convert() takes it; "" after a fault, which names `key`.
std::string read_text(const std::string& key, const YamlNode& node, Faults& faults);

// A finite number of at least `min`; empty after a fault.
std::optional<double> read_number(const std::string& key, const YamlNode& node, double min,
                                  Faults& faults);

}  // namespace gptqb
