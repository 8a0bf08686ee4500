#include "runner/text_tail.h"

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

}  // namespace gptqb
