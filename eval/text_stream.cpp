#include "eval/text_stream.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "datasets/utf8.h"

namespace gptqb {
namespace {

// Written tokens that are decoded again before the new ones, so that these join them as they would
// in one text.
constexpr size_t kContext = 6;
// No character is longer; tokens that are no character by then are none.
constexpr size_t kLongestWait = 8;

// Whether `text` ends within a character that more bytes could complete.
bool ends_within_character(std::string_view text) {
  constexpr std::string_view kReplaced = "\xEF\xBF\xBD";  // how some tokenizers show such an end
  if (text.ends_with(kReplaced)) return true;
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const size_t wanted = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return wanted > back;
  }
  return false;
}

}  // namespace

StopFilter::StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {
  for (const std::string& stop : stops_)
    if (stop.empty()) throw Error("stop", "expected a text of one character or more, got none");
}

std::string StopFilter::add(std::string_view text) {
  if (!found_.empty()) return "";
  waiting_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t at = waiting_.find(stop);
    if (at < first) {
      first = at;
      found_ = stop;
    }
  }
  if (first != std::string::npos) {
    std::string before = waiting_.substr(0, first);
    waiting_.clear();
    return before;
  }
  size_t held = 0;
  for (const std::string& stop : stops_)
    for (size_t length = std::min(stop.size() - 1, waiting_.size()); length > held; --length)
      if (waiting_.ends_with(std::string_view(stop).substr(0, length))) {
        held = length;
        break;
      }
  std::string out = waiting_.substr(0, waiting_.size() - held);
  waiting_.erase(0, out.size());
  return out;
}

std::string StopFilter::finish() { return std::exchange(waiting_, ""); }

TextStream::TextStream(const Tokenizer& tokenizer, std::vector<int32_t> prompt,
                       std::vector<std::string> stops, std::function<void(std::string_view)> sink)
    : tokenizer_(tokenizer),
      ids_(std::move(prompt)),
      stop_(std::move(stops)),
      sink_(std::move(sink)) {
  if (ids_.size() > kContext) ids_.erase(ids_.begin(), ids_.end() - kContext);
  written_ = ids_.size();
}

bool TextStream::pass(std::string text) {
  const std::string out = stop_.add(text);
  if (!out.empty()) sink_(out);
  return stop_.found().empty();
}

bool TextStream::add(int32_t id) {
  ids_.push_back(id);
  const std::string before =
      tokenizer_.decode({ids_.begin(), ids_.begin() + static_cast<int64_t>(written_)});
  const std::string all = tokenizer_.decode(ids_);
  if (all.size() <= before.size()) return true;
  if (ends_within_character(all) && ids_.size() - written_ < kLongestWait) return true;
  written_ = ids_.size();
  if (written_ > kContext) {
    ids_.erase(ids_.begin(), ids_.end() - kContext);
    written_ = kContext;
  }
  return pass(replace_invalid_utf8(all.substr(before.size())));
}

void TextStream::finish() {
  if (!stop_.found().empty()) return;
  if (ids_.size() > written_) {
    const std::string before =
        tokenizer_.decode({ids_.begin(), ids_.begin() + static_cast<int64_t>(written_)});
    const std::string all = tokenizer_.decode(ids_);
    written_ = ids_.size();
    if (all.size() > before.size() && !pass(replace_invalid_utf8(all.substr(before.size()))))
      return;
  }
  const std::string rest = stop_.finish();
  if (!rest.empty()) sink_(rest);
}

}  // namespace gptqb
