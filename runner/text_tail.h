// The end of what a program printed.
#pragma once

#include <string>

namespace gptqb {

// On one line, for a cell of a table: the last `bytes` of `text` at most, lines parted by " | ".
std::string one_line_tail(std::string text, size_t bytes);

}  // namespace gptqb
