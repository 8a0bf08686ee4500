// Ids against those of transformers 4.46 (slow GPT2Tokenizer) and tokenizers 0.23, GPT-2's
// vocabulary.
#include <gtest/gtest.h>

#include "datasets/tokenizer.h"
#include "tests/datasets/expect_error.h"
#include "tests/datasets/gpt2_vocabulary.h"

namespace gptqb {
namespace {

using test::TemporaryFolder;
using Ids = std::vector<int32_t>;

struct Case {
  std::string text;
  Ids ids;
};

// Contractions, runs of digits and spaces, line ends, other white space, several scripts, emoji,
// special tokens (TD-05, TD-06, TD-07).
const std::vector<Case>& slow_gpt2_cases() {
  static const std::vector<Case> cases = {
      {"In 1234, 56.7 don't  stop\n\n  new",
       {818, 1105, 2682, 11, 7265, 13, 22, 836, 470, 220, 2245, 628, 220, 649}},
      {"I'll we've he's they'd I'm you're isn't IT'S",
       {40, 1183, 356, 1053, 339, 338, 484, 1549, 314, 1101, 345, 821, 2125, 470, 7283, 6, 50}},
      {"1234567 don't  x", {10163, 2231, 3134, 836, 470, 220, 2124}},
      {"  leading and trailing  ", {220, 3756, 290, 25462, 220, 220}},
      {"\011\011tabs\015\nand\302\240nbsp\343\200\200wide\342\200\203em \342\200\213zero",
       {197, 197, 8658, 82, 201, 198, 392, 1849, 77, 24145, 5099, 222, 4421, 447, 225, 368, 20126,
        22570}},
      {"na\303\257ve caf\303\251 \342\200\223 \342\200\234quotes\342\200\235 \342\200\246 "
       "\342\202\2545 \342\204\226 \302\275 \302\262 \342\205\247",
       {2616,  38776, 40304, 784, 564, 250,   421,  6421, 447,  251, 3926,
        10432, 20,    2343,  226, 244, 25208, 1587, 110,  2343, 227, 100}},
      {"\346\227\245\346\234\254\350\252\236\343\201\256\343\203\206\343\202\255\343\202\271\343"
       "\203\210 \343\201\250 \355\225\234\352\265\255\354\226\264 \320\270 "
       "\321\200\321\203\321\201\321\201\320\272\320\270\320\271",
       {33768, 98,  17312, 105,   45739, 252,   5641,  24336, 25084, 43302, 23294,
        101,   220, 47991, 250,   166,   113,   255,   168,   244,   112,   12466,
        116,   220, 21169, 35072, 21727, 21727, 31583, 18849, 140,   117}},
      {"\360\237\231\202\360\237\221\251\342\200\215\360\237\221\251\342\200\215\360\237\221\247 "
       "emoji\360\237\217\263\357\270\217\342\200\215\360\237\214\210",
       {8582, 25081, 41840, 102, 447, 235,   41840, 102, 447,  235, 41840,
        100,  44805, 8582,  237, 111, 37929, 447,   235, 8582, 234, 230}},
      {"a <|endoftext|> b<|endoftext|>", {64, 220, 50256, 275, 50256}},
      {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx====================="
       "=================================================                                          "
       "                            "
       "9999999999999999999999999999999999999999999999999999999999999999999999",
       {24223, 24223, 24223, 24223, 24223, 24223, 24223, 24223, 12343, 5324,  23926, 50155, 220,
        220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,
        220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,
        220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,
        220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,
        220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,   220,
        220,   220,   220,   860,   24214, 24214, 24214, 24214, 24214, 24214, 24214, 24214, 24214,
        24214, 24214, 24214, 24214, 24214, 24214, 24214, 2079,  17032}},
      {"\302\205\341\240\216\342\200\250a\034b", {126, 227, 157, 254, 236, 447, 101, 64, 216, 65}},
      {"", {}},
      {"e\314\201 \314\201", {68, 136, 223, 220, 136, 223}},
      {"\305\277's \312\274s", {129, 123, 338, 220, 134, 120, 82}},
  };
  return cases;
}

class Gpt2 : public testing::Test {
 protected:
  void SetUp() override {
    GPTQB_REQUIRE_PATH(test::gpt2_vocabulary_file());
    test::write_gpt2_files(folder_);
  }
  TemporaryFolder folder_;
};

TEST_F(Gpt2, VocabAndMergesGiveTheSlowTokenizersIds) {
  const auto tokenizer = open_tokenizer(folder_.path());
  EXPECT_EQ(tokenizer->kind(), "byte-level bpe");
  EXPECT_EQ(tokenizer->vocab_size(), 50257);
  EXPECT_EQ(tokenizer->bos_id(), 50256);
  EXPECT_EQ(tokenizer->fingerprint().size(), 64u);
  for (const Case& example : slow_gpt2_cases()) {
    EXPECT_EQ(tokenizer->encode(example.text), example.ids) << example.text;
    EXPECT_EQ(tokenizer->encode_with_special(example.text), example.ids) << example.text;
    EXPECT_EQ(tokenizer->decode(example.ids), example.text);
  }
}

TEST_F(Gpt2, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  const auto tokenizer = open_tokenizer(folder_.path());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("a\xFF z")), "a\xEF\xBF\xBD z");
}

// OPT's rules on GPT-2's ids: the token named bos_token at the start of each encoded string, and
// its spelling cut out of the text. Text that spells OPT's <unk> is ordinary text there, because
// its unk_token is </s>.
TEST_F(Gpt2, OptPutsItsStartTokenFirst) {
  folder_.write("tokenizer_config.json",
                R"({"tokenizer_class": "GPT2Tokenizer", "add_bos_token": true,
      "bos_token": {"__type": "AddedToken", "content": "</s>", "lstrip": false, "rstrip": false, "normalized": true,
                    "single_word": false},
      "eos_token": {"content": "</s>"}, "unk_token": {"content": "</s>"}, "pad_token": "<pad>"})");
  folder_.write("added_tokens.json", R"({"</s>": 50257, "<pad>": 50258})");
  const auto tokenizer = open_tokenizer(folder_.path());
  EXPECT_EQ(tokenizer->bos_id(), 50257);
  EXPECT_EQ(tokenizer->eos_id(), 50257);
  EXPECT_EQ(tokenizer->vocab_size(), 50259);
  EXPECT_EQ(tokenizer->encode("x"), (Ids{87}));
  EXPECT_EQ(tokenizer->encode_with_special("x"), (Ids{50257, 87}));
  EXPECT_EQ(tokenizer->encode_with_special("x</s>x<unk>"),
            (Ids{50257, 87, 50257, 87, 27, 2954, 29}));
}

TEST_F(Gpt2, OtherSlowTokenizersAreRefusedByName) {
  folder_.write("tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})");
  test::expect_error(
      [&] { open_tokenizer(folder_.path()); },
      {"tokenizer_config.json", "expected tokenizer_class GPT2Tokenizer", "RobertaTokenizer"});
}

struct PreTokenizerCase {
  std::string name;
  std::string json;
  Ids ids;
};

constexpr const char* kMixed =
    "In 1234567, 56.7 DON'T don't  stop\n\n  new (x|y) “naïve”… wait.\u0085ok\u180e!";

// Pre-tokenizers of tokenizer.json, on the text above. "llama3" and "bloom" have the patterns of
// those models.
const std::vector<PreTokenizerCase>& pre_tokenizer_cases() {
  static const std::vector<PreTokenizerCase> cases = {
      {"digits",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]})",
       {818,  220,   16,  17,  18,   19,   20,  21,  22,  11,  220, 20,  21,  13, 22,  23917,
        6,    51,    836, 470, 220,  2245, 628, 220, 649, 357, 87,  91,  88,  8,  564, 250,
        2616, 38776, 447, 251, 1399, 4043, 13,  126, 227, 482, 157, 254, 236, 0}},
      {"digit runs",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]})",
       {818,   220, 10163, 2231, 3134, 11,  220, 3980, 13,  22,  23917, 6,   51,  836,
        470,   220, 2245,  628,  220,  649, 357, 87,   91,  88,  8,     564, 250, 2616,
        38776, 447, 251,   1399, 4043, 13,  126, 227,  482, 157, 254,   236, 0}},
      {"llama3",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})",
       {818,   220, 10163, 29228, 22,   11,  220, 3980, 13,  22,  23917, 6,   51,  836,
        470,   220, 2245,  628,   220,  649, 357, 87,   91,  88,  8,     564, 250, 2616,
        38776, 447, 251,   1399,  4043, 13,  126, 227,  482, 157, 254,   236, 0}},
      {"removed inverted",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Removed", "invert": true}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})",
       {818,   220, 10163, 29228, 22,   11,  220, 3980, 13,  22,  23917, 6,   51,  836,
        470,   220, 2245,  628,   220,  649, 357, 87,   91,  88,  8,     564, 250, 2616,
        38776, 447, 251,   1399,  4043, 13,  126, 227,  482, 157, 254,   236, 0}},
      {"removed",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\p{N}+"}, "behavior": "Removed", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})",
       {818, 220, 11,   220,  13, 23917, 6,   51,  836, 470, 220,  2245,
        628, 220, 649,  357,  87, 91,    88,  8,   564, 250, 2616, 38776,
        447, 251, 1399, 4043, 13, 126,   227, 482, 157, 254, 236,  0}},
      {"prefix",
       R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})",
       {554,   17031, 2231, 3134, 11,   7265, 13,  22,  23917, 6,   51,  836, 470,
        220,   2245,  628,  220,  649,  357,  87,  91,  88,    8,   564, 250, 2616,
        38776, 447,   251,  1399, 4043, 13,   126, 227, 482,   157, 254, 236, 0}},
      {"prefix each",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": false}]})",
       {554,  220,   352, 362, 513,  604,  642, 718, 767, 837, 220, 642, 718, 764, 767, 23917,
        6,    51,    836, 470, 220,  2245, 628, 220, 649, 357, 87,  91,  88,  8,   564, 250,
        2616, 38776, 447, 251, 1399, 4043, 13,  126, 227, 482, 157, 254, 236, 0}},
      {"bloom",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": " ?[^(\\s|[.,!?…。，、।۔،])]+"}, "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})",
       {818,   17031, 2231, 3134, 11,   7265, 13,  22,  23917, 6,   51,  836, 470,
        220,   2245,  628,  220,  649,  357,  87,  91,  88,    8,   564, 250, 2616,
        38776, 447,   251,  1399, 4043, 13,   126, 227, 482,   157, 254, 236, 0}},
      {"previous",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": " "}, "behavior": "MergedWithPrevious", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})",
       {818, 220,  10163, 2231,  3134, 11,   220, 3980,  13,  22,  220, 41173, 6,   51,  220, 9099,
        470, 220,  220,   11338, 628,  220,  220, 3605,  220, 7,   87,  91,    88,  8,   220, 447,
        250, 2616, 38776, 447,   251,  1399, 220, 17077, 13,  126, 227, 482,   157, 254, 236, 0}},
      {"next",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\s"}, "behavior": "MergedWithNext", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})",
       {818,  17031, 2231, 3134, 11,  7265, 13,  22,  23917, 6,   51,  836, 470,  220,
        2245, 198,   198,  220,  649, 357,  87,  91,  88,    8,   564, 250, 2616, 38776,
        447,  251,   1399, 4043, 13,  126,  227, 482, 157,   254, 236, 0}},
      {"contiguous",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "\\p{L}|\\p{N}"}, "behavior": "Contiguous", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})",
       {818,  220, 10163, 2231, 3134, 11,  220, 3980, 13,    22,    220, 41173,
        6,    51,  220,   9099, 6,    83,  220, 220,  11338, 628,   220, 220,
        3605, 357, 87,    91,   88,   8,   564, 250,  2616,  38776, 447, 251,
        1399, 220, 17077, 13,   126,  227, 482, 157,  254,   236,   0}},
      {"literal",
       R"({"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"String": "n"}, "behavior": "Isolated", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]})",
       {40,  77,    17031, 2231, 3134, 11,   7265, 13,  22,  23917, 6,   51,  466, 77,  470,
        220, 2245,  628,   220,  220,  77,   413,  357, 87,  91,    88,  8,   564, 250, 77,
        64,  38776, 447,   251,  1399, 4043, 13,   126, 227, 482,   157, 254, 236, 0}},
      {"lone",
       R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})",
       {818,   17031, 2231, 3134, 11,   7265, 13,  22,  23917, 6,   51,  836, 470,
        220,   2245,  628,  220,  649,  357,  87,  91,  88,    8,   564, 250, 2616,
        38776, 447,   251,  1399, 4043, 13,   126, 227, 482,   157, 254, 236, 0}},
  };
  return cases;
}

TEST_F(Gpt2, PreTokenizersOfTokenizerJson) {
  for (const PreTokenizerCase& example : pre_tokenizer_cases()) {
    SCOPED_TRACE(example.name);
    folder_.write("tokenizer.json",
                  test::gpt2_tokenizer_json(nlohmann::json::parse(example.json)).dump());
    EXPECT_EQ(open_tokenizer(folder_.path())->encode(kMixed), example.ids);
  }
}

// White space taken along, longest token first, `normalized` ones last; template and byte-level
// post-processors.
TEST_F(Gpt2, AddedTokensAndTemplateOfTokenizerJson) {
  nlohmann::json tokenizer =
      test::gpt2_tokenizer_json({{"type", "ByteLevel"}, {"add_prefix_space", false}});
  tokenizer["added_tokens"] = nlohmann::json::parse(R"([
      {"id": 50257, "content": "<m>", "lstrip": true, "rstrip": true, "normalized": false, "special": true},
      {"id": 50258, "content": "<mm>", "lstrip": false, "rstrip": false, "normalized": false, "special": true},
      {"id": 50259, "content": "<n", "lstrip": false, "rstrip": false, "normalized": true, "special": false},
      {"id": 50256, "content": "<|endoftext|>", "lstrip": false, "rstrip": false, "normalized": true}])");
  tokenizer["post_processor"] = nlohmann::json::parse(R"({"type": "Sequence", "processors": [
      {"type": "ByteLevel", "add_prefix_space": true},
      {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                  {"SpecialToken": {"id": "<m>", "type_id": 0}}],
       "pair": [], "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [50256]},
                                      "<m>": {"id": "<m>", "ids": [50257]}}}]})");
  folder_.write("tokenizer.json", tokenizer.dump());
  const auto opened = open_tokenizer(folder_.path());
  const std::string text = "a \u3000<m>\n b <mm> c<n<m>d <|endoftext|> <m <n>";
  const Ids ids = {64, 50257, 65,    220,  50258, 269, 50259, 50257,
                   67, 220,   50256, 1279, 76,    220, 50259, 29};
  EXPECT_EQ(opened->encode(text), ids);
  Ids framed = {50256};
  framed.insert(framed.end(), ids.begin(), ids.end());
  framed.push_back(50257);
  EXPECT_EQ(opened->encode_with_special(text), framed);
  EXPECT_EQ(opened->vocab_size(), 50260);
}

}  // namespace
}  // namespace gptqb
