// Code in documents, so that tests run what readers copy.
#pragma once

#include <string>

namespace gptqb::test {

// The first fenced block of `text` in a language.
inline std::string code_block(const std::string& text, const std::string& language) {
  const std::string fence = "```" + language + "\n";
  const size_t begin = text.find(fence) + fence.size();
  return text.substr(begin, text.find("```", begin) - begin);
}

}  // namespace gptqb::test
