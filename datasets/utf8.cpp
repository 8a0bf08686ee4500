#include "datasets/utf8.h"

namespace gptqb {

namespace {

bool in_range(unsigned char byte, int low, int high) { return byte >= low && byte <= high; }

// Bytes of the well-formed character at `offset` (`valid` true), or of the ill-formed stretch to
// replace by one U+FFFD.
size_t sequence_length(std::string_view text, size_t offset, bool& valid) {
  const auto at = [&](size_t i) -> unsigned char { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(offset);
  valid = true;
  if (lead < 0x80) return 1;
  size_t length = 0;
  int low = 0x80;
  int high = 0xBF;
  if (in_range(lead, 0xC2, 0xDF)) {
    length = 2;
  } else if (in_range(lead, 0xE0, 0xEF)) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (in_range(lead, 0xF0, 0xF4)) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    valid = false;
    return 1;
  }
  for (size_t i = 1; i < length; ++i) {
    if (offset + i >= text.size() || !in_range(at(offset + i), low, high)) {
      valid = false;
      return i;
    }
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

}  // namespace

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    bool valid = true;
    const size_t length = sequence_length(text, i, valid);
    if (!valid) return i;
    i += length;
  }
  return std::nullopt;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    bool valid = true;
    const size_t length = sequence_length(text, i, valid);
    result += valid ? text.substr(i, length) : std::string_view("\xEF\xBF\xBD");
    i += length;
  }
  return result;
}

Utf8Char decode_utf8(std::string_view text, size_t offset) {
  const auto at = [&](size_t i) -> uint32_t {
    return static_cast<unsigned char>(text[offset + i]);
  };
  const uint32_t lead = at(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (at(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0x0F) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F), 3};
  return {(lead & 0x07) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F), 4};
}

bool is_white_space(uint32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

size_t skip_white_space(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Utf8Char next = decode_utf8(text, begin);
    if (!is_white_space(next.code)) break;
    begin += next.bytes;
  }
  return begin;
}

size_t trim_white_space(std::string_view text, size_t end) {
  while (end > 0) {
    size_t start = end - 1;
    while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
    if (!is_white_space(decode_utf8(text, start).code)) break;
    end = start;
  }
  return end;
}

}  // namespace gptqb
