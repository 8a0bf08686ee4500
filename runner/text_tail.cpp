#include "runner/text_tail.h"

#include "common/atomic_file.h"

namespace gptqb {

std::string one_line_tail(std::string text, size_t bytes) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.size() > bytes) text = "..." + text.substr(text.size() - bytes);
  std::string line;
  for (const char letter : text) {
    if (letter == '\n')
      line += " | ";
    else if (letter != '\r')
      line += letter;
  }
  return line;
}

std::string printed_text(const std::filesystem::path& log, size_t bytes) {
  std::error_code ignored;
  const std::string tail =
      std::filesystem::exists(log, ignored) ? one_line_tail(read_file(log), bytes) : "";
  return tail.empty() ? "It printed nothing" : "It printed: " + tail;
}

}  // namespace gptqb
