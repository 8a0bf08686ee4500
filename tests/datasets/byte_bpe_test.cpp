#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "datasets/tokenizer.h"
#include "datasets/tokenizers/bpe_model.h"
#include "datasets/tokenizers/regex.h"
#include "tests/datasets/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

using nlohmann::json;
using test::expect_error;
using test::TemporaryFolder;
using Ids = std::vector<int32_t>;

// A tokenizer.json of seven tokens and one merge.
json small() {
  return json::parse(R"({
    "added_tokens": [{"id": 7, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
    "post_processor": null,
    "model": {"type": "BPE", "vocab": {"h": 0, "u": 1, "g": 2, "hug": 3, "\u0120": 4, "hu": 5, "<unk>": 6},
              "merges": ["h u"]}})");
}

class TokenizerJson : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> open(const json& tokenizer) const {
    folder_.write("tokenizer.json", tokenizer.dump());
    return open_tokenizer(folder_.path());
  }
  // Opens small() after one change, which must be refused.
  void refused(const std::string& pointer, const json& value,
               const std::vector<std::string>& parts) const {
    json tokenizer = small();
    tokenizer[json::json_pointer(pointer)] = value;
    std::vector<std::string> all = {(folder_.path() / "tokenizer.json").string()};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_error([&] { open(tokenizer); }, all);
  }
  TemporaryFolder folder_;
};

// Expected ids from tokenizers 0.23.
TEST_F(TokenizerJson, MergesUnknownBytesAndWholeWords) {
  EXPECT_EQ(open(small())->encode("hug ghux xx"), (Ids{5, 2, 4, 2, 5, 4}));
  json whole = small();
  whole["model"]["ignore_merges"] = true;
  EXPECT_EQ(open(whole)->encode("hug ghux xx"), (Ids{3, 4, 2, 5, 4}));
  json unknown = small();
  unknown["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(open(unknown)->encode("hug ghux xx"), (Ids{5, 2, 4, 2, 5, 6, 4, 6, 6}));
  json pairs = small();
  pairs["model"]["merges"] = json::parse(R"([["h", "u"]])");
  EXPECT_EQ(open(pairs)->encode("hug"), (Ids{5, 2}));
}

TEST_F(TokenizerJson, SpecialTokenInTextIsOneId) {
  const auto tokenizer = open(small());
  EXPECT_EQ(tokenizer->encode("h<s>h"), (Ids{0, 7, 0}));
  EXPECT_EQ(tokenizer->decode({0, 7, 5, 4}), "h<s>hu ");
  EXPECT_EQ(tokenizer->vocab_size(), 8);
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->encode_with_special("h"), (Ids{0}));
}

// TD-05: a converted file that lost the start token which the configuration asks for.
TEST_F(TokenizerJson, ConfigurationAddsTheStartTokenThatTheFileLost) {
  folder_.write("tokenizer_config.json",
                R"({"bos_token": "<s>", "add_bos_token": true, "eos_token": "<s>"})");
  const auto tokenizer = open(small());
  EXPECT_EQ(tokenizer->bos_id(), 7);
  EXPECT_EQ(tokenizer->encode_with_special("h"), (Ids{7, 0}));
  // TD-01: where the template adds it already, it is there once.
  json with_template = small();
  with_template["post_processor"] = json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [7], "tokens": ["<s>"]}}})");
  EXPECT_EQ(open(with_template)->encode_with_special("h"), (Ids{7, 0}));
}

TEST_F(TokenizerJson, WhatWouldChangeIdsIsRefusedByName) {
  refused("/normalizer", {{"type", "NFC"}},
          {"expected no normalizer, got NFC, which is not supported", "tokenizer.model"});
  refused("/normalizer", json::parse(R"({"type": "Sequence", "normalizers": [{"type": "NFKC"}]})"),
          {"got NFKC"});
  refused("/model/type", "WordPiece", {"expected model.type BPE, got WordPiece"});
  refused("/model/byte_fallback", true, {"model.byte_fallback: expected it unset, got true"});
  refused("/model/fuse_unk", true, {"model.fuse_unk"});
  refused("/model/dropout", 0.1, {"model.dropout"});
  refused("/model/continuing_subword_prefix", "##", {"model.continuing_subword_prefix", "##"});
  refused("/pre_tokenizer", {{"type", "Whitespace"}}, {"got Whitespace, which is not supported"});
  refused("/pre_tokenizer", nullptr, {"expected pre_tokenizer ByteLevel"});
  refused("/pre_tokenizer", json::parse(R"({"type": "Digits"})"),
          {"expected a pre_tokenizer that ends in ByteLevel"});
  refused(
      "/pre_tokenizer",
      json::parse(
          R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]})"),
      {"expected ByteLevel as the last pre_tokenizer, got Digits after it"});
  refused("/post_processor", {{"type", "RobertaProcessing"}},
          {"got RobertaProcessing, which is not supported"});
  refused("/added_tokens/0/single_word", true, {"'<s>'", "single_word true is not supported"});
  refused("/model/merges/0", "h x", {"merge 0 ('h' + 'x'): expected tokens, got 'x'"});
  refused("/model/merges/0", "h",
          {"expected a merge of two parts with one space between them, got 'h'"});
  refused("/model/vocab", json::object(), {"expected a vocabulary"});
  refused("/model", {{"type", "BPE"}}, {"expected the layout of a tokenizer.json"});
}

TEST_F(TokenizerJson, DamagedFilesAreErrors) {
  folder_.write("tokenizer.json", "{\"model\": ");
  expect_error([&] { open_tokenizer(folder_.path()); },
               {"tokenizer.json", "expected a JSON object, got:"});
  folder_.write("tokenizer.json", "[]");
  expect_error([&] { open_tokenizer(folder_.path()); },
               {"expected a JSON object, got a JSON array"});
  folder_.write("tokenizer_config.json", R"({"bos_token": "<none>"})");
  expect_error([&] { open(small()); }, {"special token '<none>'", "got it in neither"});
}

TEST(OpenTokenizer, NamesWhatItLookedFor) {
  TemporaryFolder folder;
  expect_error([&] { open_tokenizer(folder.path()); },
               {folder.path().string(),
                "expected tokenizer.json, tokenizer.model, or vocab.json and merges.txt"});
}

TEST(OpenTokenizer, MergesFileFaultsNameTheLine) {
  TemporaryFolder folder;
  folder.write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
  folder.write("merges.txt", "#version: 0.2\na b\n\nab\n");
  expect_error([&] { open_tokenizer(folder.path()); }, {"merges.txt:4]", "got 'ab'"});
  folder.write("merges.txt", "a b\r\n");
  EXPECT_EQ(open_tokenizer(folder.path())->encode("abab"), (Ids{2, 2}));
}

// Two merges of the same pair of places compete: the earlier one in the file wins, then the one
// further left.
TEST(BpeModel, OrderOfMerges) {
  const BpeModel model({{"a", 0}, {"b", 1}, {"ab", 2}, {"ba", 3}, {"aa", 4}, {"abab", 5}},
                       {{"b", "a"}, {"a", "b"}, {"a", "a"}, {"ab", "ab"}}, false, "test");
  const auto encode = [&](const std::string& word) {
    Ids ids;
    model.encode(word, std::nullopt, ids);
    return ids;
  };
  EXPECT_EQ(encode("aba"), (Ids{0, 3}));
  EXPECT_EQ(encode("abab"), (Ids{0, 3, 1}));
  EXPECT_EQ(encode("aaa"), (Ids{4, 0}));
  EXPECT_EQ(encode("aab"), (Ids{0, 2}));
  EXPECT_EQ(encode(""), Ids{});
}

// A word of many equal letters keeps its cost near linear; the result is pairs.
TEST(BpeModel, LongWord) {
  const BpeModel model({{"a", 0}, {"aa", 1}}, {{"a", "a"}}, false, "test");
  Ids ids;
  model.encode(std::string(200'001, 'a'), std::nullopt, ids);
  EXPECT_EQ(ids.size(), 100'001u);
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(ids.back(), 0);
}

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  std::vector<std::string> result;
  Regex(pattern, "test").for_each_match(text, [&](size_t begin, size_t end) {
    result.push_back(text.substr(begin, end - begin));
  });
  return result;
}

TEST(Regex, MeansWhatOnigurumaMeans) {
  using Strings = std::vector<std::string>;
  // U+0085 is white space, U+180E and U+200B are not.
  EXPECT_EQ(matches(R"(\s+)", "a\u0085b\u180ec\u200bd e"), (Strings{"\u0085", " "}));
  EXPECT_EQ(matches(R"([^(\s|[.,])]+)", "ab.cd,(e[f"), (Strings{"ab", "cd", "e[f"}));
  EXPECT_EQ(matches("[]a]+", "x]a"), (Strings{"]a"}));
  EXPECT_EQ(matches("x*", "axxa"), (Strings{"xx"}));
  EXPECT_EQ(matches(R"(\p{L}+)", "ab\u00e9 \u65e5\u672c1"), (Strings{"ab\u00e9", "\u65e5\u672c"}));
}

TEST(Regex, WhatCannotBeTranslatedIsRefused) {
  for (const char* pattern : {R"(\w+)", R"(\bx)", "[a[^b]]", "[a&&b]", "[[:alpha:]]"})
    expect_error([&] { Regex(pattern, "tokenizer.json"); },
                 {"[tokenizer.json]", pattern, "not supported"});
  expect_error([] { Regex("(a", "tokenizer.json"); },
               {"expected a valid pattern, got '(a'", "at byte 2"});
}

}  // namespace
}  // namespace gptqb
