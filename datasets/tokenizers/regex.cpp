#include "datasets/tokenizers/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "common/error.h"
#include "datasets/utf8.h"

namespace gptqb {

namespace {

[[noreturn]] void unsupported(const std::string& where, const std::string& pattern,
                              const std::string& what) {
  throw Error(where, "expected a pattern that means the same to PCRE2, got " + what + " in '" +
                         pattern + "', which is not supported");
}

std::string translate(const std::string& pattern, const std::string& where) {
  std::string result;
  int depth = 0;          // of character classes
  bool at_start = false;  // just after '[' or '[^' of the outermost class, where ']' is a literal
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    const bool class_start = at_start;
    at_start = false;
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      if (next == 's' || next == 'S')
        result += next == 's' ? "\\p{White_Space}" : "\\P{White_Space}";
      else if (std::string_view("wWbBhHRX").find(next) != std::string_view::npos)
        unsupported(where, pattern, std::string("\\") + next);
      else
        result += {c, next};
    } else if (depth == 0) {
      if (c == '[') {
        depth = 1;
        at_start = true;
        if (i + 1 < pattern.size() && pattern[i + 1] == '^') {
          result += c;
          ++i;
          result += '^';
          continue;
        }
      }
      result += c;
    } else if (c == '[') {
      if (pattern.compare(i, 2, "[:") == 0) unsupported(where, pattern, "a POSIX class");
      if (pattern.compare(i, 2, "[^") == 0)
        unsupported(where, pattern, "a negated class inside a class");
      ++depth;
    } else if (c == ']') {
      if (class_start) {
        result += "\\]";
      } else if (--depth == 0) {
        result += c;
      }
    } else if (c == '&' && pattern.compare(i, 2, "&&") == 0) {
      unsupported(where, pattern, "an intersection of classes");
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  std::string where;

  ~Compiled() {
    pcre2_code_free(code);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }

  static std::unique_ptr<Compiled> make(const std::string& pattern, uint32_t options,
                                        const std::string& where) {
    auto compiled = std::make_unique<Compiled>();
    compiled->where = where;
    int code = 0;
    PCRE2_SIZE offset = 0;
    compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | options, &code, &offset, nullptr);
    if (!compiled->code) {
      PCRE2_UCHAR message[256];
      pcre2_get_error_message(code, message, sizeof message);
      throw Error(where, "expected a valid pattern, got '" + pattern +
                             "': " + reinterpret_cast<char*>(message) + " at byte " +
                             std::to_string(offset));
    }
    // Compiling to machine code may be unavailable; matching is then slower and the same.
    pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
    compiled->context = pcre2_match_context_create(nullptr);
    compiled->stack = pcre2_jit_stack_create(size_t{32} << 10, size_t{16} << 20, nullptr);
    pcre2_jit_stack_assign(compiled->context, nullptr, compiled->stack);
    return compiled;
  }
};

Regex::Regex(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Regex::Regex(const std::string& pattern, const std::string& where)
    : compiled_(Compiled::make(translate(pattern, where), PCRE2_UCP, where)) {}
Regex Regex::literal(const std::string& text, const std::string& where) {
  return Regex(Compiled::make(text, PCRE2_LITERAL, where));
}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::for_each_match(std::string_view text,
                           const std::function<void(size_t, size_t)>& found) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create_from_pattern(compiled_->code, nullptr), pcre2_match_data_free);
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(data.get());
  size_t offset = 0;
  while (offset < text.size()) {
    const int code =
        pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), offset,
                    PCRE2_NO_UTF_CHECK, data.get(), compiled_->context);
    if (code == PCRE2_ERROR_NOMATCH) return;
    if (code < 0) {
      PCRE2_UCHAR message[256];
      pcre2_get_error_message(code, message, sizeof message);
      throw Error(compiled_->where, std::string("expected to match the pattern, got: ") +
                                        reinterpret_cast<char*>(message) + " at byte " +
                                        std::to_string(offset) + " of the text");
    }
    if (span[1] > span[0]) {
      found(span[0], span[1]);
      offset = span[1];
    } else {
      offset = span[0];
      if (offset < text.size()) offset += decode_utf8(text, offset).bytes;
    }
  }
}

}  // namespace gptqb
