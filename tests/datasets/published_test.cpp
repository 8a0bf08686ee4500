// The real texts of the shared folder: published hashes and token counts (shared/data/README.md,
// shared/reference).
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/atomic_file.h"
#include "common/hash.h"
#include "datasets/overlap.h"
#include "datasets/windows.h"
#include "tests/datasets/gpt2_vocabulary.h"
#include "tests/support/shared.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

fs::path data_root() { return test::shared_root() / "data"; }

Corpus load(const std::string& name, Purpose purpose) {
  return load_corpus(DatasetSpec::parse(name), purpose, data_root(), data_root());
}

class Published : public testing::Test {
 protected:
  void SetUp() override { GPTQB_REQUIRE_PATH(data_root()); }
};

TEST_F(Published, WikiText2JoinedTexts) {
  const Corpus test_split = load("wikitext2", Purpose::kEvaluation);
  EXPECT_EQ(test_split.documents.size(), 4358u);
  EXPECT_EQ(test_split.joined().size(), 1296370u);
  EXPECT_EQ(sha256_hex(test_split.joined()),
            "696cca6b65a171b0a358a4be6732cdfdf2dd6164a32e20fd70e3c13fc4dfae83");
  EXPECT_EQ(test_split.files[0].sha256,
            "173c87a53759e0201f33e0ccf978e510c2042d7f2cb78229d9a50d79b9e7dd08");
  EXPECT_EQ(test_split.files[0].path, "wikitext-2-raw/wiki.test.raw.xz");
  EXPECT_EQ(test_split.files[0].bytes, 1290590);

  const Corpus valid = load("wikitext2@valid", Purpose::kEvaluation);
  EXPECT_EQ(valid.documents.size(), 3760u);
  EXPECT_EQ(valid.joined().size(), 1151766u);
  EXPECT_EQ(sha256_hex(valid.joined()),
            "b44fb967f92b525731216a507d1fbc44b97446b7ef0a2b4d1a893f81f1bbc29e");

  EXPECT_EQ(load("wikitext2@train-head", Purpose::kCalibration).documents.size(), 3280u);
}

TEST_F(Published, PtbFilesAndSentences) {
  const Corpus old_protocol = load("ptb", Purpose::kEvaluation);
  EXPECT_EQ(old_protocol.documents.size(), 3370u);
  EXPECT_EQ(old_protocol.files[0].sha256,
            "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2");
  EXPECT_EQ(load("ptb-new", Purpose::kEvaluation).documents.size(), 3761u);
  EXPECT_EQ(load("ptb", Purpose::kCalibration).documents.size(), 42068u);
}

// Sizes: protocol.md section 2 for WikiText-2, 341469 tokens and 166 segments of 2048. Hashes and
// the other sizes: transformers 4.46, slow LlamaTokenizer on the same joined texts.
TEST_F(Published, Llama) {
  const fs::path folder = test::shared_root() / "models" / "llama-tokenizer";
  GPTQB_REQUIRE_PATH(folder / "tokenizer.model");
  const auto tokenizer = open_tokenizer(folder);
  const auto windows = [&](const std::string& name) {
    return evaluation_windows(load(name, Purpose::kEvaluation), tokenizer.get(), 2048, 0,
                              BosPolicy::kTokenizer);
  };
  const TokenWindows wikitext2 = windows("wikitext2");
  EXPECT_EQ(wikitext2.stream_tokens, 341469);
  EXPECT_EQ(wikitext2.ids_sha256,
            "9b69cd50dbe9e29f2d40f999f103fbe4b0ff014ec4f9fdae094c687ca1af6f92");
  EXPECT_EQ(wikitext2.count, 166);
  EXPECT_EQ(wikitext2.ids[0], 1);
  EXPECT_EQ(std::count(wikitext2.ids.begin(), wikitext2.ids.end(), 1), 1);

  // TD-06: each "<unk>" of the text is one id.
  const TokenWindows ptb = windows("ptb");
  EXPECT_EQ(ptb.stream_tokens, 101549);
  EXPECT_EQ(ptb.ids_sha256, "99346b73b7ca77a790555078a0f0a3bdc11c1d62fd1b7a8935d80adf26c24453");
  const TokenWindows ptb_new = windows("ptb-new");
  EXPECT_EQ(ptb_new.stream_tokens, 106527);
  EXPECT_EQ(ptb_new.ids_sha256, "ef46cd1d0c1eae963f73d6860c57b14326bfae39d5a399cfa760e55065cc826b");
}

// transformers 4.46, slow GPT2Tokenizer; OPT has the same merges and one start token more
// (protocol.md: 287645).
TEST_F(Published, Gpt2) {
  GPTQB_REQUIRE_PATH(test::gpt2_vocabulary_file());
  test::TemporaryFolder folder;
  test::write_gpt2_files(folder);
  const auto tokenizer = open_tokenizer(folder.path());
  const TokenWindows windows = evaluation_windows(load("wikitext2", Purpose::kEvaluation),
                                                  tokenizer.get(), 2048, 0, BosPolicy::kTokenizer);
  EXPECT_EQ(windows.stream_tokens, 287644);
  EXPECT_EQ(windows.count, 140);
  EXPECT_EQ(windows.ids_sha256, "ef6af648320b73e3cb62461c48c8e4539aec4d10c751005e32d690977f0b9ccf");
}

class SmolLM2 : public Published {
 protected:
  void SetUp() override {
    GPTQB_REQUIRE_PATH(data_root());
    const fs::path reference = test::shared_root() / "reference" / "smollm2.json";
    GPTQB_REQUIRE_PATH(reference);
    GPTQB_REQUIRE_PATH(test::smollm2_folder() / "tokenizer.json");
    reference_ = nlohmann::json::parse(read_file(reference));
    tokenizer_ = open_tokenizer(test::smollm2_folder());
  }
  TokenWindows windows(const Corpus& corpus) const {
    return evaluation_windows(corpus, tokenizer_.get(), 2048, 0, BosPolicy::kTokenizer);
  }
  nlohmann::json reference_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(SmolLM2, TokenCountsAndIds) {
  const auto& counts = reference_["token_counts"];
  const TokenWindows wikitext2 = windows(load("wikitext2", Purpose::kEvaluation));
  EXPECT_EQ(wikitext2.stream_tokens, counts["wikitext2"].get<int64_t>());
  EXPECT_EQ(wikitext2.ids_sha256,
            reference_["wikitext2_test_ids_sha256_int32_little_endian"].get<std::string>());
  const auto first = reference_["wikitext2_test_first_ids"].get<std::vector<int32_t>>();
  EXPECT_EQ(std::vector<int32_t>(wikitext2.ids.begin(), wikitext2.ids.begin() + 12), first);

  EXPECT_EQ(windows(load("ptb-new", Purpose::kEvaluation)).stream_tokens,
            counts["ptb_test"].get<int64_t>());

  DatasetSpec demo;
  demo.name = "c4_demo";
  demo.source = "jsonl:c4/c4_demo.jsonl";
  const TokenWindows c4 =
      windows(load_corpus(demo, Purpose::kEvaluation, data_root(), data_root()));
  EXPECT_EQ(c4.documents, 300);
  EXPECT_EQ(c4.stream_tokens, counts["c4_demo"].get<int64_t>());
  EXPECT_EQ(c4.dataset, "c4_demo");
}

TEST_F(SmolLM2, CalibrationStarts) {
  const CalibrationWindows drawn =
      calibration_windows(load("wikitext2@train-head", Purpose::kCalibration), tokenizer_.get(),
                          128, 2048, 0, Draw::kReference, 8);
  EXPECT_EQ(drawn.calibration.stream_tokens,
            reference_["token_counts"]["wikitext2_train_head"].get<int64_t>());
  EXPECT_EQ(drawn.calibration.starts, reference_["calibration_starts"].get<std::vector<int64_t>>());
  EXPECT_EQ(drawn.calibration.count, 128);
  // Most of the text is taken; what is left does not overlap it.
  EXPECT_EQ(drawn.heldout.count + (drawn.heldout_shortage.empty() ? 0 : 8 - drawn.heldout.count),
            8);
  EXPECT_LT(ngram_overlap(drawn.calibration.ids, drawn.heldout.ids), 0.01);
}

TEST_F(SmolLM2, TrainHeadAndTestDoNotOverlap) {
  const auto tokens = [&](const std::string& name) {
    return tokenizer_->encode(load(name, Purpose::kEvaluation).joined());
  };
  EXPECT_LT(ngram_overlap(tokens("wikitext2@train-head"), tokens("wikitext2")), 0.01);
}

}  // namespace
}  // namespace gptqb
