// Regular expressions of tokenizer files, run by PCRE2 with Unicode properties.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace gptqb {

class Regex {
 public:
  // `pattern` in the dialect of tokenizer.json (Oniguruma). What PCRE2 reads differently is
  // translated: \s means Unicode's White_Space property, and a class nested in a class is merged
  // into it. Throws Error at `where` for what cannot be (negated nested classes, intersections, \w,
  // \b) and for patterns that do not compile.
  Regex(const std::string& pattern, const std::string& where);
  // Matches `text` letter by letter.
  static Regex literal(const std::string& text, const std::string& where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  // Calls `found` with begin and end of each match that is not empty, from left to right; `text` is
  // well-formed UTF-8.
  void for_each_match(std::string_view text,
                      const std::function<void(size_t, size_t)>& found) const;

 private:
  struct Compiled;
  explicit Regex(std::unique_ptr<Compiled> compiled);
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace gptqb
