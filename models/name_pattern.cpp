#include "models/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "common/error.h"

namespace gptqb {
namespace {

PCRE2_SPTR bytes_of(const std::string& text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string reason_of(int code) {
  PCRE2_UCHAR message[256];
  pcre2_get_error_message(code, message, sizeof message);
  return reinterpret_cast<char*>(message);
}

}  // namespace

struct NamePattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* limits = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_code_free(code);
    pcre2_match_context_free(limits);
  }
};

NamePattern::NamePattern(std::string pattern, std::string where)
    : text_(std::move(pattern)), where_(std::move(where)) {
  const auto compiled = std::make_shared<Compiled>();
  int fault = 0;
  PCRE2_SIZE offset = 0;
  compiled->code =
      pcre2_compile(bytes_of(text_), text_.size(), PCRE2_UTF | PCRE2_UCP, &fault, &offset, nullptr);
  if (compiled->code == nullptr)
    throw Error(where_, "expected a regular expression, got '" + text_ + "': " + reason_of(fault) +
                            " at byte " + std::to_string(offset));
  // Not compiled to machine code, whose steps are counted in another way.
  compiled->limits = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(compiled->limits, kMostSteps);
  compiled_ = compiled;
}

bool NamePattern::fits_start_of(const std::string& name) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> data(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  // 0: it fits, and has more groups than there is room for.
  const int code = pcre2_match(compiled_->code, bytes_of(name), name.size(), 0, PCRE2_ANCHORED,
                               data.get(), compiled_->limits);
  if (code >= 0) return true;
  if (code == PCRE2_ERROR_NOMATCH) return false;
  // Without the name: one pattern is one fault, however many layers there are.
  throw Error(where_, "expected a regular expression that is decided in " +
                          std::to_string(kMostSteps) + " steps, got '" + text_ + "': " +
                          reason_of(code) + ". Write it without repetitions inside repetitions");
}

}  // namespace gptqb
