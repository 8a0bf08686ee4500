// Text and token files that a user names in an experiment.
#pragma once

#include <filesystem>

#include "datasets/dataset.h"

namespace gptqb {

// Throws Error if `source` is not "text:PATH", "jsonl:PATH" or "tokens:PATH", or naming the file
// and place at fault.
Corpus load_own_source(const DatasetSpec& spec, const std::filesystem::path& data_root,
                       const std::filesystem::path& base);

// What can be told without reading a file to its end: throws Error for a `source` of another form,
// a file that is not there, and a first document of "jsonl:PATH" without text under `spec.field`.
void check_own_source(const DatasetSpec& spec, const std::filesystem::path& base);

}  // namespace gptqb
