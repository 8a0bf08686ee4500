// The section `claim` of an experiment file.
#pragma once

#include "runner/expect_reader.h"

namespace gptqb {

// Reads `{statement, parts: [{metric, of, against, ratio or difference: {at_least, at_most}}]}`
// into `out.claim`. Adds a fault for whatever could not be judged.
void read_claim(const YamlNode& node, const ReadSettings& read_where, Faults& faults,
                Experiment& out);

}  // namespace gptqb
