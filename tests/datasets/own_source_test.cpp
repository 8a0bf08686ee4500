#include <gtest/gtest.h>

#include "datasets/dataset.h"
#include "tests/datasets/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

using test::expect_error;
using test::TemporaryFolder;

class OwnSource : public testing::Test {
 protected:
  DatasetSpec spec(const std::string& source) const {
    DatasetSpec result;
    result.name = "mine";
    result.source = source;
    return result;
  }
  Corpus load(const DatasetSpec& dataset) const {
    return load_corpus(dataset, Purpose::kEvaluation, "/data", folder_.path());
  }
  Corpus load(const std::string& source) const { return load(spec(source)); }
  TemporaryFolder folder_;
};

TEST_F(OwnSource, TextIsOneDocumentAsItIs) {
  folder_.write("a.txt", " two\n\nparagraphs \n");
  const Corpus corpus = load("text:a.txt");
  EXPECT_EQ(corpus.documents, std::vector<std::string>{" two\n\nparagraphs \n"});
  EXPECT_EQ(corpus.label, "mine");
  EXPECT_EQ(corpus.rule, WindowRule::kStream);
}

TEST_F(OwnSource, JsonLinesAreDocumentsWithTheGivenJoin) {
  folder_.write("a.jsonl", "{\"text\": \"one\"}\n\n{\"text\": \"tw\\u00f6\\n\", \"n\": 2}\n");
  EXPECT_EQ(load("jsonl:a.jsonl").joined(), "one\n\ntw\xC3\xB6\n");
  DatasetSpec spaced = spec("jsonl:" + (folder_.path() / "a.jsonl").string());
  spaced.join = " ";
  EXPECT_EQ(load(spaced).joined(), "one tw\xC3\xB6\n");
  folder_.write("b.jsonl", R"({"body": "x"})");
  DatasetSpec field = spec("jsonl:b.jsonl");
  field.field = "body";
  EXPECT_EQ(load(field).joined(), "x");
}

TEST_F(OwnSource, JsonLinesFaultsNameFileAndLine) {
  const auto faulty = [&](const std::string& line, const std::vector<std::string>& parts) {
    const auto path = folder_.write("bad.jsonl", "{\"text\": \"fine\"}\n" + line + "\n");
    std::vector<std::string> all = {"[" + path.string() + ":2]"};
    all.insert(all.end(), parts.begin(), parts.end());
    expect_error([&] { load("jsonl:bad.jsonl"); }, all);
  };
  faulty("{\"text\": \"cut", {"expected one JSON object on this line", "parse error"});
  faulty("[1]", {"got a JSON array"});
  faulty("{\"body\": \"x\"}", {"expected the key 'text', got only body", "`field`"});
  faulty("{\"text\": 5}", {"expected text under 'text', got a JSON number"});
  faulty("{\"text\": \"\xFF\"}", {"UTF-8"});
}

TEST_F(OwnSource, TokensAreIdsAsTextOrLittleEndianWords) {
  folder_.write("a.txt", " 1 22\n333\t0\r\n");
  EXPECT_EQ(load("tokens:a.txt").tokens, (std::vector<int32_t>{1, 22, 333, 0}));
  folder_.write("a.bin", std::string("\x01\x00\x00\x00\xC0\xC0\x01\x00", 8));
  EXPECT_EQ(load("tokens:a.bin").tokens, (std::vector<int32_t>{1, 0x1C0C0}));
  EXPECT_EQ(load("tokens:a.bin").files[0].bytes, 8);
}

TEST_F(OwnSource, TokenFaultsNameThePlace) {
  folder_.write("a.txt", "1 2x 3");
  expect_error([&] { load("tokens:a.txt"); },
               {"a.txt", "separated by white space, got '2x' at byte 2"});
  folder_.write("a.txt", "1 -2");
  expect_error([&] { load("tokens:a.txt"); }, {"got '-2' at byte 2"});
  folder_.write("a.txt", "99999999999");
  expect_error([&] { load("tokens:a.txt"); }, {"from 0 to 2147483647", "'99999999999'"});
  folder_.write("a.bin", "12345");
  expect_error([&] { load("tokens:a.bin"); }, {"a multiple of 4 bytes, got 5 bytes"});
  folder_.write("a.bin", std::string("\x01\x00\x00\x00\xFF\xFF\xFF\xFF", 8));
  expect_error([&] { load("tokens:a.bin"); }, {"got -1 at byte 4"});
}

TEST_F(OwnSource, UnknownKindMissingFileAndEmptyFileAreErrors) {
  expect_error([&] { load("csv:a.csv"); },
               {"[dataset mine]",
                "expected source 'text:PATH', 'jsonl:PATH' or 'tokens:PATH', got 'csv:a.csv'"});
  expect_error([&] { load("text:"); }, {"got 'text:'"});
  expect_error([&] { load("text:none.txt"); },
               {"[dataset mine]", (folder_.path() / "none.txt").string(), "none.txt.zst",
                "current directory"});
  folder_.write("empty.jsonl", "\n");
  expect_error([&] { load("jsonl:empty.jsonl"); },
               {"empty.jsonl", "expected documents for dataset mine, got none"});
  folder_.write("empty.txt", " ");
  expect_error([&] { load("tokens:empty.txt"); },
               {"expected token ids for dataset mine, got none"});
}

}  // namespace
}  // namespace gptqb
