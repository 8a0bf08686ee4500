// What would stop `save` hours later, asked before any work.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "methods/memory_plan.h"
#include "runner/plan.h"

namespace gptqb {

// Bytes that the packed checkpoint of `cell` takes at least: a rule may give layers more than the
// cell's bits, and the tokenizer's files are left out.
int64_t least_checkpoint_bytes(const Cell& cell, const ModelSizes& sizes);

// Looks at the folder of each cell that `plan` saves: whether it is in the way, whether one can be
// made there, and whether the disk has room for those that are not there yet. `sizes` by cell id;
// a model that is not known needs no room. Relative paths start at `base`. Throws Error, all faults
// in one message.
void check_saves(const Plan& plan, const std::map<std::string, ModelSizes>& sizes,
                 const std::filesystem::path& base);

}  // namespace gptqb
