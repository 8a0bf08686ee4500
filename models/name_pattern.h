// Patterns of layer names in settings of packed folders, as Python's re.match reads them.
#pragma once

#include <memory>
#include <string>

namespace gptqb {

// A folder comes from anywhere, and so does its pattern: one that would backtrack without end is
// refused, so that no folder can hang a reader.
class NamePattern {
 public:
  // Throws Error(where) for what is no regular expression.
  NamePattern(std::string pattern, std::string where);

  // Whether the pattern fits `name` from its first letter on, to wherever. Throws Error(where) if
  // that is not decided after kMostSteps.
  bool fits_start_of(const std::string& name) const;
  const std::string& text() const { return text_; }

  // Of backtracking, for one name: patterns that people write take some hundreds.
  static constexpr int kMostSteps = 100'000;

 private:
  struct Compiled;
  std::string text_;
  std::string where_;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace gptqb
