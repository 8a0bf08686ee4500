// The entries of `expect` in an experiment file.
#pragma once

#include <functional>

#include "runner/experiment.h"

namespace gptqb {

// Reads a map of settings that names cells.
using ReadSettings = std::function<void(const YamlNode&, Settings&)>;

// Adds what the entry `node` expects to `out.expect`: one value, or a row of a published table,
// `values` along the swept key `along` (null: nothing is published there). `out.sweep` is read
// already. Adds a fault for an entry that could not get a verdict.
void read_expectation(const YamlNode& node, const ReadSettings& read_where, Faults& faults,
                      Experiment& out);

}  // namespace gptqb
