// The end of what a program printed.
#pragma once

#include <filesystem>
#include <string>

namespace gptqb {

// On one line, for a cell of a table: the last `bytes` of `text` at most, lines parted by " | ".
std::string one_line_tail(std::string text, size_t bytes);

// "It printed: ..." with such an end of a log file, or "It printed nothing", also where there is no
// file.
std::string printed_text(const std::filesystem::path& log, size_t bytes);

}  // namespace gptqb
