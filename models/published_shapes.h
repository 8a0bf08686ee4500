// The shapes of published models, as the config.json each was published with says them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gptqb {

// Names of the models whose shape is known: "opt-125m" ... "llama-3-70b".
std::vector<std::string> published_shapes();

// config.json of that model, with what this program reads: sizes, biases, norms, positions. Throws
// Error with the nearest name for one that is not known.
nlohmann::json published_config(const std::string& name);

}  // namespace gptqb
