// Where records are, below a folder that a user names.
#pragma once

#include <filesystem>
#include <vector>

namespace gptqb {

// `folder` if it holds records/, else all folders below it that do, in order of their paths: the
// output of several experiments, or of one run many times. Empty: there is none.
std::vector<std::filesystem::path> output_folders(const std::filesystem::path& folder);

// The same where there must be one. Throws Error naming `folder` if none of them has a record.
std::vector<std::filesystem::path> required_output_folders(const std::filesystem::path& folder);

}  // namespace gptqb
