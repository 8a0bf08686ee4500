// Ids against those of transformers 4.46 (slow LlamaTokenizer, legacy behaviour), LLaMA's own
// model.
#include <gtest/gtest.h>

#include "common/atomic_file.h"
#include "datasets/tokenizer.h"
#include "tests/datasets/expect_error.h"
#include "tests/support/shared.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

using test::expect_error;
using test::TemporaryFolder;
using Ids = std::vector<int32_t>;

struct Case {
  std::string text;
  Ids ids;
};

// TD-06: text that spells a special token is that token, and what follows it starts with a space of
// its own.
const std::vector<Case>& slow_llama_cases() {
  static const std::vector<Case> cases = {
      {"a <unk> b", {1, 263, 29871, 0, 29871, 289}},
      {"a <s> b", {1, 263, 29871, 1, 29871, 289}},
      {"Hello world", {1, 15043, 3186}},
      {"  two  spaces\n\nnew line 123",
       {1, 259, 1023, 29871, 8162, 13, 13, 1482, 1196, 29871, 29896, 29906, 29941}},
      {"<unk>", {1, 0}},
      {"a</s>", {1, 263, 2}},
      {"", {1}},
      {std::string("\346\227\245\346\234\254\350\252\236\360\237\231\202\000 \343\200\200x", 19),
       {1, 29871, 30325, 30346, 30968, 243, 162, 156, 133, 3, 29871, 30358, 29916}},
      {" = Robert Boulter = \n", {1, 29871, 353, 4755, 350, 5059, 357, 353, 29871, 13}},
      {"ab cd", {1, 633, 14965}},
      {"<s><s> x", {1, 1, 1, 29871, 921}},
  };
  return cases;
}

class Llama : public testing::Test {
 protected:
  void SetUp() override {
    const auto model = test::shared_root() / "models" / "llama-tokenizer" / "tokenizer.model";
    GPTQB_REQUIRE_PATH(model);
    folder_.write("tokenizer.model", read_file(model));
  }
  TemporaryFolder folder_;
};

TEST_F(Llama, GivesTheSlowTokenizersIds) {
  const auto tokenizer = open_tokenizer(folder_.path());
  EXPECT_EQ(tokenizer->kind(), "sentencepiece");
  EXPECT_EQ(tokenizer->vocab_size(), 32000);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_EQ(tokenizer->fingerprint().size(), 64u);
  for (const Case& example : slow_llama_cases()) {
    EXPECT_EQ(tokenizer->encode_with_special(example.text), example.ids) << example.text;
    EXPECT_EQ(tokenizer->encode(example.text), Ids(example.ids.begin() + 1, example.ids.end()))
        << example.text;
  }
}

// TD-04: pieces encoded separately are not the whole, which is why documents are encoded before
// they are cut.
TEST_F(Llama, PartsAreNotTheWhole) {
  const auto tokenizer = open_tokenizer(folder_.path());
  Ids parts = tokenizer->encode("ab");
  for (const int32_t id : tokenizer->encode(" cd")) parts.push_back(id);
  EXPECT_NE(tokenizer->encode("ab cd"), parts);
}

TEST_F(Llama, DecodesWhatItEncoded) {
  const auto tokenizer = open_tokenizer(folder_.path());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("Hello world 123\n")), "Hello world 123\n");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("<unk>")), "<unk>");
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\xFFz")), "a\xEF\xBF\xBDz");
}

TEST_F(Llama, ConfigurationDecidesAboutStartAndEnd) {
  folder_.write("tokenizer_config.json",
                R"({"tokenizer_class": "LlamaTokenizer", "add_bos_token": false,
      "add_eos_token": true, "bos_token": {"content": "<s>"}, "eos_token": "</s>", "unk_token": "<unk>"})");
  EXPECT_EQ(open_tokenizer(folder_.path())->encode_with_special("Hello world"),
            (Ids{15043, 3186, 2}));
  folder_.write("tokenizer_config.json",
                R"({"tokenizer_class": "LLaMATokenizer", "bos_token": "", "unk_token": ""})");
  EXPECT_EQ(open_tokenizer(folder_.path())->encode_with_special("Hello world"),
            (Ids{1, 15043, 3186}));
  folder_.write("added_tokens.json", R"({"[PAD]": 32000})");
  const auto padded = open_tokenizer(folder_.path());
  EXPECT_EQ(padded->vocab_size(), 32001);
  EXPECT_EQ(padded->encode("[PAD]"), (Ids{32000}));
}

TEST_F(Llama, AddedTokensOfTheConfigurationTakeWhiteSpaceAsTheirFlagsSay) {
  folder_.write("tokenizer_config.json", R"({"added_tokens_decoder": {
      "2": {"content": "</s>", "lstrip": false, "rstrip": false},
      "32000": {"content": "<|user|>", "lstrip": true, "rstrip": true, "normalized": true, "special": true}}})");
  const auto tokenizer = open_tokenizer(folder_.path());
  EXPECT_EQ(tokenizer->vocab_size(), 32001);
  EXPECT_EQ(tokenizer->encode("Hello \n<|user|>  world"), (Ids{15043, 32000, 3186}));
  folder_.write("tokenizer_config.json", R"({"added_tokens_decoder": {"x": {"content": "y"}}})");
  expect_error([&] { open_tokenizer(folder_.path()); },
               {"expected numbers as keys of added_tokens_decoder"});
}

TEST_F(Llama, UnknownRulesAndTokensAreRefused) {
  folder_.write("tokenizer_config.json", R"({"tokenizer_class": "T5Tokenizer"})");
  expect_error(
      [&] { open_tokenizer(folder_.path()); },
      {"tokenizer_config.json", "expected tokenizer_class LlamaTokenizer", "got T5Tokenizer"});
  folder_.write("tokenizer_config.json", R"({"pad_token": "[PAD]"})");
  expect_error([&] { open_tokenizer(folder_.path()); },
               {"special token '[PAD]'", "got it in neither"});
}

// A tokenizer.json that is a conversion of the model beside it is passed over; a byte-level one is
// not.
TEST_F(Llama, ChoiceBetweenTokenizerJsonAndModel) {
  folder_.write("tokenizer.json",
                R"({"model": {"type": "BPE", "byte_fallback": true, "vocab": {}, "merges": []},
      "normalizer": {"type": "Prepend"}, "pre_tokenizer": null})");
  EXPECT_EQ(open_tokenizer(folder_.path())->kind(), "sentencepiece");
  folder_.write("tokenizer.json", R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
      "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits"}, {"type": "ByteLevel"}]}})");
  EXPECT_EQ(open_tokenizer(folder_.path())->kind(), "byte-level bpe");
}

TEST(SentencePiece, DamagedModelIsAnError) {
  TemporaryFolder folder;
  folder.write("tokenizer.model", "not a model");
  expect_error([&] { open_tokenizer(folder.path()); },
               {"tokenizer.model", "expected a sentencepiece model"});
}

}  // namespace
}  // namespace gptqb
