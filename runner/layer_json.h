// Layer health as JSON: in records and beside the blocks kept for resuming.
#pragma once

#include <string>
#include <vector>

#include "methods/quantizer.h"

namespace gptqb {

std::string layers_to_json(const std::vector<LayerHealth>& layers);
// Inverse. Throws Error naming `where` and the key.
std::vector<LayerHealth> layers_from_json(const std::string& text, const std::string& where);

}  // namespace gptqb
