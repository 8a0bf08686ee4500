// What can be said of a plan's cells once their models are known, before any work.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "eval/generation.h"
#include "methods/block_model.h"
#include "runner/plan.h"

namespace gptqb {

// Full names of all linears of `model`'s blocks, which rules and `method.layers` are about.
std::vector<std::string> linear_names(const BlockModel& model);

// Why a packed checkpoint cannot be the model of `cell`; "" if it can.
std::string packed_refusal(const Cell& cell);

struct ModelChecks {
  // A sentence for each model that cannot be opened: its cells will fail, others can run.
  std::vector<std::string> broken;
  // By cell id, of those that could.
  std::map<std::string, ModelSizes> sizes;
  // The same: full names of their blocks' linears.
  std::map<std::string, std::vector<std::string>> linears;
  // Of cells whose models write: what that takes.
  std::map<std::string, GenerationMemory> generation;
};

// Opens each model of `plan` that is there (configuration and headers, no weights) and holds the
// globs of its cells against the names of its layers. Relative paths start at `base`. Throws Error,
// all faults in one message, for rules and `method.layers` that match no layer.
ModelChecks check_models(const Plan& plan, const std::filesystem::path& base);

}  // namespace gptqb
