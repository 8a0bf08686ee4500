// Penn Treebank, Mikolov's word-level version: what its two protocols share.
#pragma once

#include <filesystem>
#include <string>

#include "datasets/dataset.h"

namespace gptqb {

// Splits of the files: "train", "valid", "test".
std::vector<std::string> ptb_splits();

// One document a line, stripped of white space at both ends, `join` between them; `name` is the
// protocol's.
Corpus load_ptb(const std::string& name, const std::string& split, const std::string& join,
                const std::filesystem::path& data_root);

}  // namespace gptqb
