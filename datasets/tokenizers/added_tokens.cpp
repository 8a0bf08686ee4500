#include "datasets/tokenizers/added_tokens.h"

#include <algorithm>

#include "datasets/utf8.h"

namespace gptqb {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (size_t i = 0; i < tokens_.size(); ++i)
    by_first_byte_[static_cast<unsigned char>(tokens_[i].content[0])].push_back(i);
  for (auto& indices : by_first_byte_)
    std::sort(indices.begin(), indices.end(), [&](size_t a, size_t b) {
      return tokens_[a].content.size() > tokens_[b].content.size();
    });
}

std::vector<Segment> AddedTokens::split(std::string_view text) const {
  std::vector<Segment> first;
  cut(text, false, first);
  std::vector<Segment> segments;
  for (const Segment& segment : first) {
    if (segment.id >= 0)
      segments.push_back(segment);
    else
      cut(segment.text, true, segments);
  }
  return segments;
}

void AddedTokens::cut(std::string_view text, bool normalized,
                      std::vector<Segment>& segments) const {
  size_t done = 0;
  for (size_t i = 0; i < text.size();) {
    const AddedToken* found = nullptr;
    for (const size_t index : by_first_byte_[static_cast<unsigned char>(text[i])]) {
      const AddedToken& token = tokens_[index];
      if (token.normalized == normalized && text.substr(i).starts_with(token.content)) {
        found = &token;
        break;
      }
    }
    if (!found) {
      ++i;
      continue;
    }
    size_t begin = i;
    size_t end = i + found->content.size();
    if (found->lstrip) begin = done + trim_white_space(text.substr(done), begin - done);
    if (found->rstrip) end = skip_white_space(text, end);
    if (begin > done) segments.push_back({text.substr(done, begin - done), -1});
    segments.push_back({text.substr(begin, end - begin), *found->id});
    done = i = end;
  }
  if (done < text.size()) segments.push_back({text.substr(done), -1});
}

}  // namespace gptqb
