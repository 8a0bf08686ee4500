// Text and token files that a user names in an experiment.
#pragma once

#include <filesystem>

#include "datasets/dataset.h"

namespace gptqb {

// Throws Error if `source` is not "text:PATH", "jsonl:PATH" or "tokens:PATH", or naming the file
// and place at fault.
Corpus load_own_source(const DatasetSpec& spec, const std::filesystem::path& data_root,
                       const std::filesystem::path& base);

}  // namespace gptqb
