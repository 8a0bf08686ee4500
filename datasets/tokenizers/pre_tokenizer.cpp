#include "datasets/tokenizers/pre_tokenizer.h"

#include <map>

#include "common/error.h"

namespace gptqb {

using nlohmann::json;

namespace {

// Contractions, then letters, digits or other signs with at most one space before them, then white
// space (of which a run before a word leaves its last space to that word). From the GPT-2 release.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace

PreTokenizer PreTokenizer::gpt2() {
  return from_json(json{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}},
                   "GPT-2");
}

PreTokenizer PreTokenizer::from_json(const json& entry, const std::string& where) {
  PreTokenizer result;
  result.add_json(entry, where);
  if (!result.byte_level_)
    throw Error(where,
                "expected a pre_tokenizer that ends in ByteLevel, got none (only byte-level BPE is "
                "supported)");
  return result;
}

void PreTokenizer::add_json(const json& entry, const std::string& where) {
  const std::string type = entry.is_object() ? entry.value("type", "") : "";
  if (type == "Sequence") {
    for (const auto& part : entry.at("pretokenizers")) add_json(part, where);
    return;
  }
  if (byte_level_)
    throw Error(where, "expected ByteLevel as the last pre_tokenizer, got " + type + " after it");
  if (type == "ByteLevel") {
    byte_level_ = true;
    const bool prefix = entry.value("add_prefix_space", true);
    if (entry.value("use_regex", true))
      steps_.push_back({Regex(kGpt2Pattern, where), Behavior::kIsolated, false, prefix});
    else
      prefix_space_ = prefix;
  } else if (type == "Digits") {
    const char* pattern = entry.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)";
    steps_.push_back({Regex(pattern, where), Behavior::kIsolated, false, false});
  } else if (type == "Split") {
    static const std::map<std::string, Behavior> behaviors = {
        {"Isolated", Behavior::kIsolated},
        {"Removed", Behavior::kRemoved},
        {"MergedWithPrevious", Behavior::kMergedWithPrevious},
        {"MergedWithNext", Behavior::kMergedWithNext},
        {"Contiguous", Behavior::kContiguous}};
    const auto behavior = behaviors.find(entry.value("behavior", ""));
    if (behavior == behaviors.end())
      throw Error(where, "pre_tokenizer Split: expected a known behavior, got '" +
                             entry.value("behavior", "") + "'");
    const auto& pattern = entry.at("pattern");
    if (pattern.contains("Regex"))
      steps_.push_back(
          {Regex(pattern["Regex"].get<std::string>(), where), behavior->second, false, false});
    else
      steps_.push_back({Regex::literal(pattern.at("String").get<std::string>(), where),
                        behavior->second, false, false});
    steps_.back().invert = entry.value("invert", false);
  } else {
    throw Error(
        where, "expected pre_tokenizer ByteLevel, Split, Digits or a Sequence of them, got " +
                   (type.empty() ? entry.dump().substr(0, 80) : type) + ", which is not supported");
  }
}

void PreTokenizer::split(const Step& step, std::string_view word,
                         std::vector<std::string_view>& words) {
  struct Piece {
    size_t begin, end;
    bool match;
  };
  std::vector<Piece> pieces;
  size_t done = 0;
  const auto push = [&](size_t begin, size_t end, bool match) {
    if (end > begin) pieces.push_back({begin, end, match != step.invert});
  };
  step.regex.for_each_match(word, [&](size_t begin, size_t end) {
    push(done, begin, false);
    push(begin, end, true);
    done = end;
  });
  push(done, word.size(), false);

  // Adjacent pieces that belong together become one; a run of matches is never merged among itself.
  std::vector<Piece> merged;
  for (size_t i = 0; i < pieces.size(); ++i) {
    bool join = false;
    if (i > 0) {
      if (step.behavior == Behavior::kContiguous) join = pieces[i].match == pieces[i - 1].match;
      if (step.behavior == Behavior::kMergedWithPrevious)
        join = pieces[i].match && !pieces[i - 1].match;
      if (step.behavior == Behavior::kMergedWithNext)
        join = pieces[i - 1].match && !pieces[i].match;
    }
    if (join)
      merged.back().end = pieces[i].end;
    else
      merged.push_back(pieces[i]);
  }
  for (const Piece& piece : merged)
    if (!(step.behavior == Behavior::kRemoved && piece.match))
      words.push_back(word.substr(piece.begin, piece.end - piece.begin));
}

std::vector<std::string_view> PreTokenizer::words(std::string_view text,
                                                  std::deque<std::string>& storage) const {
  const auto with_space = [&](std::string_view word) -> std::string_view {
    if (word.starts_with(' ')) return word;
    return storage.emplace_back(" " + std::string(word));
  };
  std::vector<std::string_view> words = {text};
  for (const Step& step : steps_) {
    std::vector<std::string_view> next;
    for (const std::string_view word : words)
      split(step, step.prefix_space ? with_space(word) : word, next);
    words = std::move(next);
  }
  if (prefix_space_)
    for (std::string_view& word : words) word = with_space(word);
  return words;
}

}  // namespace gptqb
