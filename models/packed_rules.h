// `dynamic`: the rules by which GPTQModel's readers know layers that are stored in another way than
// the rest.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/packed_layer.h"

namespace gptqb {

// A rule for each of `packed` (by full name) whose bits, group size or symmetry are not those of
// `base`, and for each of `dense`. Each pattern fits one name. Empty: all are as `base` says.
nlohmann::ordered_json packed_rules(const PackedLayer& base,
                                    const std::map<std::string, PackedLayer>& packed,
                                    const std::vector<std::string>& dense);

}  // namespace gptqb
