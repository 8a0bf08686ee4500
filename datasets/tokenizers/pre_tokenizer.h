// Cuts text into words within which byte-level BPE may merge.
#pragma once

#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/tokenizers/regex.h"

namespace gptqb {

class PreTokenizer {
 public:
  // GPT-2's pattern, with nothing put before the text.
  static PreTokenizer gpt2();

  // `pre_tokenizer` of tokenizer.json: ByteLevel, or a Sequence of Split (a pattern) and Digits
  // that ends in ByteLevel. Throws Error at `where` naming anything else.
  static PreTokenizer from_json(const nlohmann::json& entry, const std::string& where);

  // Words of `text` in order; views into `text`, or into `storage` where a space had to be put
  // before one.
  std::vector<std::string_view> words(std::string_view text,
                                      std::deque<std::string>& storage) const;

 private:
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Step {
    Regex regex;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;        // the stretches between matches play the part of matches
    bool prefix_space = false;  // before each word that does not start with one
  };

  void add_json(const nlohmann::json& entry, const std::string& where);
  static void split(const Step& step, std::string_view word, std::vector<std::string_view>& words);

  std::vector<Step> steps_;
  bool prefix_space_ = false;  // of a ByteLevel that has no pattern of its own
  bool byte_level_ = false;    // seen: nothing may follow
};

}  // namespace gptqb
