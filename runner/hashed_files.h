// Whole files of a model, for `--verify`: fingerprints look at headers and sampled pages only.
#pragma once

#include <filesystem>
#include <vector>

#include "datasets/dataset.h"

namespace gptqb {

// Weights, settings and tokenizer of a Hugging Face folder (*.safetensors, *.json, *.model, *.txt),
// by name, with the SHA-256 of all their bytes. Throws Error: a file cannot be read.
std::vector<SourceFile> hashed_files(const std::filesystem::path& folder);

}  // namespace gptqb
