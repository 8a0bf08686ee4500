// UTF-8: where it is broken, and the few character classes that tokenizers need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gptqb {

// Byte offset of the first byte that is no part of well-formed UTF-8 (Unicode 15, table 3-7), or
// nothing.
std::optional<size_t> find_invalid_utf8(std::string_view text);

// `text` with each maximal ill-formed stretch replaced by U+FFFD, as Python's errors="replace"
// does.
std::string replace_invalid_utf8(std::string_view text);

// The character at `offset` of well-formed text, and its length in bytes.
struct Utf8Char {
  uint32_t code = 0;
  size_t bytes = 0;
};
Utf8Char decode_utf8(std::string_view text, size_t offset);

// Unicode's White_Space property.
bool is_white_space(uint32_t code);

// Offsets in well-formed `text`: the first byte after leading white space, and the end before
// trailing white space.
size_t skip_white_space(std::string_view text, size_t begin);
size_t trim_white_space(std::string_view text, size_t end);

}  // namespace gptqb
