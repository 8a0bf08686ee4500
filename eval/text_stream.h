// Tokens as text, as they come: whole characters only, and nothing that a stop text takes back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tokenizer.h"

namespace gptqb {

// Lets text through up to the first of some stop texts. What may be the beginning of one waits.
class StopFilter {
 public:
  // Throws Error if a stop text is empty.
  explicit StopFilter(std::vector<std::string> stops);

  // Text that can go out now that `text` has come. Nothing more after a stop.
  std::string add(std::string_view text);
  // What waited, now that no more comes.
  std::string finish();
  // The stop text that was found; empty: none.
  const std::string& found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string waiting_;
  std::string found_;
};

class TextStream {
 public:
  // `prompt`: the ids before those that come; they decide whether a word begins with a space.
  // `sink` is called with whole characters of UTF-8.
  TextStream(const Tokenizer& tokenizer, std::vector<int32_t> prompt,
             std::vector<std::string> stops, std::function<void(std::string_view)> sink);

  // One more token. Returns false once a stop text was met; the text before it has gone out.
  bool add(int32_t id);
  // No more tokens come: what waited goes out, bytes that are no whole character as U+FFFD.
  void finish();
  const std::string& stop_found() const { return stop_.found(); }

 private:
  bool pass(std::string text);

  const Tokenizer& tokenizer_;
  std::vector<int32_t> ids_;  // the last few that are written, then those that are not
  size_t written_ = 0;        // of ids_
  StopFilter stop_;
  std::function<void(std::string_view)> sink_;
};

}  // namespace gptqb
