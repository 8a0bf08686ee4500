// Text that comes in tokens: whole characters, stop texts across tokens, words joined as in one
// text.
#include "eval/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "datasets/utf8.h"
#include "tests/support/message.h"

namespace gptqb::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ids are bytes, as the parts that byte-level tokenizers cut characters into.
class Bytes final : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::vector<int32_t> encode_with_special(std::string_view text) const override {
    return encode(text);
  }
  std::string decode(const std::vector<int32_t>& ids) const override {
    std::string text;
    for (const int32_t id : ids) text += static_cast<char>(id);
    return text;
  }
  int64_t vocab_size() const override { return 256; }
  std::optional<int32_t> bos_id() const override { return std::nullopt; }
  std::optional<int32_t> eos_id() const override { return std::nullopt; }
  std::string kind() const override { return "bytes"; }
  std::string fingerprint() const override { return ""; }
};

struct Streamed {
  std::vector<std::string> parts;
  std::string text;
  std::string stop;
};

Streamed stream(const Tokenizer& tokenizer, const std::vector<int32_t>& prompt,
                const std::vector<int32_t>& ids, const std::vector<std::string>& stops = {}) {
  Streamed result;
  TextStream out(tokenizer, prompt, stops, [&](std::string_view part) {
    EXPECT_FALSE(find_invalid_utf8(part)) << part;
    result.parts.emplace_back(part);
    result.text += part;
  });
  for (const int32_t id : ids)
    if (!out.add(id)) break;
  out.finish();
  result.stop = out.stop_found();
  return result;
}

Streamed stream_bytes(const std::string& text, const std::vector<std::string>& stops = {}) {
  const Bytes bytes;
  return stream(bytes, bytes.encode("prompt "), bytes.encode(text), stops);
}

TEST(TextStream, CharactersAreNeverCut) {
  EXPECT_THAT(stream_bytes("aé€😀z").parts, ElementsAre("a", "é", "€", "😀", "z"));
}

TEST(TextStream, BytesThatAreNoCharacterAreShownAsSuch) {
  EXPECT_EQ(stream_bytes("a\xE2\x82").text, "a\uFFFD");  // the text ends within one
  EXPECT_EQ(stream_bytes("a\xFFz").text, "a\uFFFDz");
  EXPECT_EQ(stream_bytes("\xC3z\x80z").text, "\uFFFDz\uFFFDz");
}

TEST(TextStream, StopTextsMayLieAcrossTokens) {
  const Streamed cut = stream_bytes("one END two", {"END"});
  EXPECT_EQ(cut.text, "one ");
  EXPECT_EQ(cut.stop, "END");
  // What only began like one comes later, and the longest beginning waits.
  EXPECT_EQ(stream_bytes("EEN EENEND", {"END"}).text, "EEN EEN");
  EXPECT_EQ(stream_bytes("one EN", {"END"}).text, "one EN");
  EXPECT_EQ(stream_bytes("one EN", {"END"}).stop, "");
  // The first in the text, of several; within a character's bytes there is none.
  EXPECT_EQ(stream_bytes("a, b. c", {".", ","}).stop, ",");
  EXPECT_EQ(stream_bytes("x€y", {"€"}).text, "x");
  EXPECT_EQ(stream_bytes("stop", {"stop"}).text, "");
}

TEST(TextStream, AnEmptyStopTextIsRefused) {
  EXPECT_THAT(message_of([] { stream_bytes("a", {""}); }), HasSubstr("[stop]"));
}

// Against cutting the whole text at the first stop.
TEST(StopFilter, EqualsASearchInTheWholeText) {
  std::mt19937_64 generator(1);
  const auto draw = [&](uint64_t least, uint64_t most) {
    std::string text;
    for (uint64_t left = least + generator() % (most - least + 1); left > 0; --left)
      text += static_cast<char>('a' + generator() % 2);
    return text;
  };
  for (int trial = 0; trial < 2000; ++trial) {
    const std::vector<std::string> stops = {draw(2, 6), draw(3, 7)};
    const std::string text = draw(0, 40);
    StopFilter filter(stops);
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t count = 1 + generator() % 4;
      out += filter.add(text.substr(at, count));
      at += count;
    }
    if (filter.found().empty()) out += filter.finish();
    const size_t cut = std::min(text.find(stops[0]), text.find(stops[1]));
    // A piece may bring a stop that begins earlier and ends later than another: the earlier one
    // counts if it came in the same piece, else the one that was whole first.
    if (cut == std::string::npos) {
      EXPECT_EQ(out, text);
      EXPECT_TRUE(filter.found().empty());
    } else {
      EXPECT_FALSE(filter.found().empty());
      EXPECT_TRUE(text.starts_with(out));
      EXPECT_TRUE(text.substr(out.size()).starts_with(filter.found()));
      for (const std::string& stop : stops) EXPECT_EQ(out.find(stop), std::string::npos);
    }
  }
}

// With sentencepiece a word's space belongs to its first piece, and is no text at the very start.
TEST(TextStream, WordsJoinThePromptAsInOneText) {
  const auto tokenizer = open_tokenizer(GPTQB_SOURCE_DIR "/assets/quickstart-model");
  const std::string text =
      "The castle was built in 1204 – near Zürich, 北京 and 😀; it is now a museum.\nIt was sold.";
  const std::vector<int32_t> ids = tokenizer->encode_with_special(text);
  const std::string whole = tokenizer->decode(tokenizer->encode(text));
  for (size_t cut = 1; cut < ids.size(); ++cut) {
    const std::vector<int32_t> prompt(ids.begin(), ids.begin() + static_cast<int64_t>(cut));
    const std::vector<int32_t> rest(ids.begin() + static_cast<int64_t>(cut), ids.end());
    const std::string before = tokenizer->decode(prompt);
    if (find_invalid_utf8(before) || before.ends_with("\uFFFD")) continue;  // cut in a character
    EXPECT_EQ(before + stream(*tokenizer, prompt, rest).text, tokenizer->decode(ids)) << cut;
  }
  EXPECT_THAT(tokenizer->decode(ids), HasSubstr(whole));
}

}  // namespace
}  // namespace gptqb::test
