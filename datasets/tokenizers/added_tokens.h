// Cuts added tokens out of a text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "datasets/tokenizers/tokenizer_folder.h"

namespace gptqb {

// A stretch of text between added tokens, or (id >= 0) one of them.
struct Segment {
  std::string_view text;
  int32_t id = -1;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // Every token must have an id.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  // The leftmost token wins, of those that start together the longest; a token takes white space
  // with it as its flags say. Tokens that are not `normalized` are cut out of the whole text before
  // the others. Empty stretches are left out. `text` must be well-formed UTF-8 and outlive the
  // segments.
  std::vector<Segment> split(std::string_view text) const;

  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  void cut(std::string_view text, bool normalized, std::vector<Segment>& segments) const;

  std::vector<AddedToken> tokens_;
  // Indices into tokens_ by first byte, longest first.
  std::array<std::vector<size_t>, 256> by_first_byte_;
};

}  // namespace gptqb
