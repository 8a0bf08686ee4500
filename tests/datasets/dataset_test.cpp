#include "datasets/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "datasets/overlap.h"
#include "tests/datasets/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using test::expect_error;
using test::TemporaryFolder;

Corpus load(const std::string& name, Purpose purpose, const fs::path& root) {
  return load_corpus(DatasetSpec::parse(name), purpose, root, root);
}

TEST(DatasetRegistry, OneFileForEachLine) {
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(fs::path(GPTQB_SOURCE_DIR) / "datasets" / "impl"))
    files.insert(entry.path().stem().string());
  std::set<std::string> lines;
#define GPTQB_DATASET(function, name, summary) lines.insert(#function);
#include "datasets/datasets.def"
#undef GPTQB_DATASET
  EXPECT_EQ(files, lines);
  EXPECT_EQ(lines.size(), datasets().entries().size());
}

TEST(DatasetRegistry, EveryEntryKeepsTheContract) {
  TemporaryFolder empty;
  for (const auto& entry : datasets().entries()) {
    SCOPED_TRACE(entry.name);
    EXPECT_FALSE(entry.summary.empty());
    const auto dataset = entry.make();
    ASSERT_FALSE(dataset->splits().empty());
    for (const std::string& split : dataset->splits()) {
      const DatasetSpec spec = DatasetSpec::parse(entry.name + "@" + split);
      EXPECT_EQ(spec.name, entry.name);
      EXPECT_EQ(spec.split, split);
      EXPECT_EQ(spec.label(), entry.name + "@" + split);
      if (entry.name == "builtin" || entry.name == "random") continue;  // nothing to fetch
      expect_error([&] { dataset->load(Purpose::kEvaluation, split, empty.path()); },
                   {"[" + entry.name + "@" + split + "]", ".gz", ".xz", ".zst", "GPTQ_BENCH_DATA",
                    "public as"});
    }
  }
}

TEST(DatasetSpec, ParsesAndLabels) {
  EXPECT_EQ(DatasetSpec::parse("wikitext2").label(), "wikitext2");
  EXPECT_EQ(DatasetSpec::parse("wikitext2@train-head").label(), "wikitext2@train-head");
  DatasetSpec own;
  own.name = "mine";
  own.source = "text:a.txt";
  EXPECT_EQ(own.label(), "mine");
}

TEST(DatasetSpec, UnknownNameOrSplitListsTheKnownOnes) {
  expect_error([] { DatasetSpec::parse("wikitext"); },
               {"[dataset]", "wikitext2", "ptb-new", "c4-new"});
  expect_error([] { DatasetSpec::parse("ptb@tset"); },
               {"[dataset ptb]", "train, valid, test", "'tset'", "'test'"});
  expect_error([] { DatasetSpec::parse("ptb@"); }, {"expected a split after '@', got none"});
}

TEST(Datasets, MissingFileNamesEveryPathAndHowToGetIt) {
  expect_error(
      [] { load("wikitext2", Purpose::kEvaluation, "/no/data"); },
      {"[wikitext2@test] expected the file wikitext-2-raw/wiki.test.raw, got none of "
       "/no/data/wikitext-2-raw/wiki.test.raw, /no/data/wikitext-2-raw/wiki.test.raw.gz, "
       "/no/data/wikitext-2-raw/wiki.test.raw.xz, /no/data/wikitext-2-raw/wiki.test.raw.zst",
       "wikitext-2-raw-v1", "set GPTQ_BENCH_DATA to the folder"});
  expect_error([] { load("wikitext2", Purpose::kCalibration, "/no/data"); },
               {"wiki.train.raw", "wikitext2@train-head"});
  expect_error([] { load("c4", Purpose::kCalibration, "/no/data"); },
               {"/no/data/c4/en/c4-train.00000-of-01024.json.gz", "allenai/c4"});
  expect_error([] { load("c4", Purpose::kEvaluation, ""); },
               {"expected GPTQ_BENCH_DATA to name the folder that holds "
                "c4/en/c4-validation.00000-of-00008.json"});
}

// TD-16: 10 lines, 4 of them blank; blank ones are rows, and empty.
TEST(WikiText2, BlankLinesAreEmptyRowsAndOthersKeepTheirNewline) {
  TemporaryFolder root;
  root.write("wikitext-2-raw/wiki.test.raw",
             " \n = A = \n \n first row . \n second\xC2\xA0row . \n\n = B = \n   \n x \ny");
  const Corpus corpus = load("wikitext2", Purpose::kEvaluation, root.path());
  EXPECT_EQ(corpus.documents.size(), 10u);
  EXPECT_EQ(std::count(corpus.documents.begin(), corpus.documents.end(), ""), 4);
  EXPECT_EQ(corpus.joined(),
            "\n\n = A = \n\n\n\n\n first row . \n\n\n second\xC2\xA0row . \n\n\n\n\n = B = "
            "\n\n\n\n\n x \n\n\ny");
  EXPECT_EQ(corpus.label, "wikitext2@test");
  EXPECT_EQ(corpus.rule, WindowRule::kStream);
  ASSERT_EQ(corpus.files.size(), 1u);
  EXPECT_EQ(corpus.files[0].path, "wikitext-2-raw/wiki.test.raw");
}

TEST(WikiText2, SplitsAreFiles) {
  TemporaryFolder root;
  for (const char* split : {"train", "valid", "test", "train.head"})
    root.write(std::string("wikitext-2-raw/wiki.") + split + ".raw", split);
  EXPECT_EQ(load("wikitext2", Purpose::kCalibration, root.path()).joined(), "train");
  EXPECT_EQ(load("wikitext2", Purpose::kEvaluation, root.path()).joined(), "test");
  EXPECT_EQ(load("wikitext2@valid", Purpose::kEvaluation, root.path()).joined(), "valid");
  EXPECT_EQ(load("wikitext2@train-head", Purpose::kCalibration, root.path()).joined(),
            "train.head");
}

// TD-15 and PP-14: three sentences, and what each protocol makes of them. TD-09: which file.
TEST(Ptb, ProtocolsDifferInSplitAndSeparator) {
  TemporaryFolder root;
  for (const char* split : {"train", "valid", "test"})
    root.write(std::string("ptb/ptb.") + split + ".txt",
               std::string(" ") + split + " one \n two <unk> N \n three \n");
  const auto text = [&](const std::string& name, Purpose purpose) {
    return load(name, purpose, root.path()).joined();
  };
  EXPECT_EQ(text("ptb", Purpose::kEvaluation), "valid one\n\ntwo <unk> N\n\nthree");
  EXPECT_EQ(text("ptb", Purpose::kCalibration), "train one\n\ntwo <unk> N\n\nthree");
  EXPECT_EQ(text("ptb-new", Purpose::kEvaluation), "test one two <unk> N three");
  EXPECT_EQ(text("ptb-new", Purpose::kCalibration), "train one two <unk> N three");
  EXPECT_EQ(text("ptb@test", Purpose::kEvaluation), "test one\n\ntwo <unk> N\n\nthree");
  EXPECT_EQ(load("ptb-new", Purpose::kEvaluation, root.path()).label, "ptb-new@test");
}

TEST(C4, OldProtocolDrawsDocumentsAndNewJoinsTheFirst1100) {
  TemporaryFolder root;
  std::string lines;
  for (int i = 0; i < 1105; ++i)
    lines += R"({"text": "d)" + std::to_string(i) + R"(\n", "url": "u"})" + "\n";
  root.write("c4/en/c4-validation.00000-of-00008.json", lines);
  root.write("c4/en/c4-train.00000-of-01024.json", R"({"text": "train"})");

  const Corpus old_protocol = load("c4", Purpose::kEvaluation, root.path());
  EXPECT_EQ(old_protocol.documents.size(), 1105u);
  EXPECT_EQ(old_protocol.rule, WindowRule::kRandomDocuments);
  EXPECT_EQ(old_protocol.head_windows, 256);

  const Corpus new_protocol = load("c4-new", Purpose::kEvaluation, root.path());
  EXPECT_EQ(new_protocol.documents.size(), 1100u);
  EXPECT_EQ(new_protocol.joined().substr(0, 11), "d0\n d1\n d2\n");
  EXPECT_EQ(new_protocol.rule, WindowRule::kHeadStream);
  EXPECT_EQ(new_protocol.head_windows, 256);
  // The fingerprint is that of the whole file.
  EXPECT_EQ(new_protocol.files[0].bytes, static_cast<int64_t>(lines.size()));

  for (const char* name : {"c4", "c4-new"}) {
    const Corpus calibration = load(name, Purpose::kCalibration, root.path());
    EXPECT_EQ(calibration.documents, std::vector<std::string>{"train"});
    EXPECT_EQ(calibration.rule, WindowRule::kRandomDocuments);
  }
}

TEST(Builtin, DocumentsArePartedByBlankLines) {
  TemporaryFolder share;
  share.write("datasets/builtin/evaluation.txt", "One line.\nSecond line.\n\n\nSecond document.\n");
  share.write("datasets/builtin/calibration.txt", "Calibration.");
  setenv("GPTQ_BENCH_SHARE", share.path().c_str(), 1);
  const Corpus corpus = load("builtin", Purpose::kEvaluation, "");
  const Corpus calibration = load("builtin", Purpose::kCalibration, "");
  fs::remove(share.path() / "datasets/builtin/calibration.txt");
  expect_error([] { load("builtin", Purpose::kCalibration, ""); },
               {"calibration.txt", "GPTQ_BENCH_SHARE"});
  unsetenv("GPTQ_BENCH_SHARE");
  EXPECT_EQ(corpus.documents,
            (std::vector<std::string>{"One line.\nSecond line.", "Second document."}));
  EXPECT_EQ(corpus.joined(), "One line.\nSecond line.\n\nSecond document.");
  EXPECT_EQ(corpus.files[0].path, "datasets/builtin/evaluation.txt");
  EXPECT_EQ(calibration.documents, std::vector<std::string>{"Calibration."});
}

// The texts that come with the program: enough for a first run, and nothing evaluated was
// calibrated on.
TEST(Builtin, ShippedTextsAreLargeAndDisjoint) {
  const fs::path folder = fs::path(GPTQB_SOURCE_DIR) / "datasets" / "builtin";
  ASSERT_TRUE(fs::exists(folder / "evaluation.txt"));
  std::map<std::string, int32_t> numbers;
  const auto words = [&](const Corpus& corpus) {
    std::vector<int32_t> ids;
    std::istringstream text(corpus.joined());
    for (std::string word; text >> word;)
      ids.push_back(numbers.emplace(word, static_cast<int32_t>(numbers.size())).first->second);
    return ids;
  };
  const Corpus calibration = load("builtin", Purpose::kCalibration, "");
  const Corpus evaluation = load("builtin", Purpose::kEvaluation, "");
  EXPECT_GE(calibration.joined().size() + evaluation.joined().size(), 60'000u);
  EXPECT_GT(calibration.documents.size(), 1u);
  EXPECT_GT(evaluation.documents.size(), 1u);
  EXPECT_DOUBLE_EQ(ngram_overlap(words(calibration), words(evaluation), 8), 0.0);
}

}  // namespace
}  // namespace gptqb
