// What can be said of a plan's cells once their models are known, before any work.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "methods/block_model.h"
#include "runner/plan.h"

namespace gptqb {

// Full names of all linears of `model`'s blocks, which rules and `method.layers` are about.
std::vector<std::string> linear_names(const BlockModel& model);

// Opens each model of `plan` that is there (configuration and headers, no weights) and holds the
// globs of its cells against the names of its layers. Relative paths start at `base`. Returns a
// sentence for each model that cannot be opened: its cells will fail, others can run. Throws Error,
// all faults in one message, for rules and `method.layers` that match no layer.
std::vector<std::string> check_models(const Plan& plan, const std::filesystem::path& base);

}  // namespace gptqb
