#include "datasets/windows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "common/hash.h"
#include "tests/datasets/expect_error.h"

namespace gptqb {
namespace {

using test::expect_error;

// One id a byte; BOS is 256.
class BytesTokenizer : public Tokenizer {
 public:
  explicit BytesTokenizer(bool has_bos = false) : has_bos_(has_bos) {}
  std::vector<int32_t> encode(std::string_view text) const override {
    ++calls;
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::vector<int32_t> encode_with_special(std::string_view text) const override {
    std::vector<int32_t> ids = encode(text);
    if (has_bos_) ids.insert(ids.begin(), 256);
    return ids;
  }
  std::string decode(const std::vector<int32_t>&) const override { return ""; }
  int64_t vocab_size() const override { return 257; }
  std::optional<int32_t> bos_id() const override {
    return has_bos_ ? std::optional(256) : std::nullopt;
  }
  std::optional<int32_t> eos_id() const override { return std::nullopt; }
  std::string kind() const override { return "bytes"; }
  std::string fingerprint() const override { return ""; }
  mutable int calls = 0;

 private:
  bool has_bos_;
};

Corpus stream(int64_t tokens) {
  Corpus corpus;
  corpus.label = "numbers";
  corpus.tokens.resize(static_cast<size_t>(tokens));
  std::iota(corpus.tokens.begin(), corpus.tokens.end(), 0);
  return corpus;
}

// Documents "aaa...", "bbb...", of the given lengths.
Corpus documents(const std::vector<size_t>& lengths) {
  Corpus corpus;
  corpus.label = "letters";
  corpus.rule = WindowRule::kRandomDocuments;
  for (size_t i = 0; i < lengths.size(); ++i)
    corpus.documents.push_back(std::string(lengths[i], static_cast<char>('a' + i)));
  return corpus;
}

// Document and start of each window of a corpus made by documents().
std::vector<std::pair<int, int64_t>> places(const TokenWindows& windows) {
  std::vector<std::pair<int, int64_t>> result;
  for (int64_t i = 0; i < windows.count; ++i)
    result.emplace_back(windows.window(i)[windows.seqlen - 1] - 'a',
                        windows.starts[static_cast<size_t>(i)]);
  return result;
}

// PP-10 and PP-02: 10 tokens, windows of 4: two windows, two tokens dropped.
TEST(EvaluationWindows, AreDisjointAndTheTailIsDropped) {
  const TokenWindows windows = evaluation_windows(stream(10), nullptr, 4, 0, BosPolicy::kTokenizer);
  EXPECT_EQ(windows.count, 2);
  EXPECT_EQ(windows.ids, (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(windows.starts, (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(windows.stream_tokens, 10);
  EXPECT_EQ(windows.dropped_tokens, 2);
  EXPECT_EQ(evaluation_windows(stream(9), nullptr, 4, 0, BosPolicy::kTokenizer).dropped_tokens, 1);
  const TokenWindows one = evaluation_windows(stream(10), nullptr, 4, 1, BosPolicy::kTokenizer);
  EXPECT_EQ(one.count, 1);
  EXPECT_EQ(one.dropped_tokens, 2);
}

TEST(EvaluationWindows, HashIsOfTheWholeStreamInLittleEndian) {
  Corpus corpus = stream(0);
  corpus.tokens = {1, 256, 65536};
  EXPECT_EQ(evaluation_windows(corpus, nullptr, 2, 0, BosPolicy::kNone).ids_sha256,
            sha256_hex(std::string("\x01\0\0\0\0\x01\0\0\0\0\x01\0", 12)));
}

// TD-04: documents are joined and encoded as one text, then cut.
TEST(EvaluationWindows, DocumentsAreEncodedOnceAsOneText) {
  Corpus corpus;
  corpus.documents = {"ab", "", "cd"};
  corpus.join = "--";
  const BytesTokenizer tokenizer(true);
  const TokenWindows windows = evaluation_windows(corpus, &tokenizer, 3, 0, BosPolicy::kTokenizer);
  EXPECT_EQ(tokenizer.calls, 1);
  EXPECT_EQ(windows.ids, (std::vector<int32_t>{256, 'a', 'b', '-', '-', '-', '-', 'c', 'd'}));
  EXPECT_EQ(windows.documents, 3);
}

// TD-01: the start token by each policy, never two in a row.
TEST(EvaluationWindows, BosPolicies) {
  Corpus corpus;
  corpus.documents = {"abcdef"};
  const BytesTokenizer tokenizer(true);
  const auto ids = [&](BosPolicy bos) {
    return evaluation_windows(corpus, &tokenizer, 3, 0, bos).ids;
  };
  EXPECT_EQ(ids(BosPolicy::kTokenizer), (std::vector<int32_t>{256, 'a', 'b', 'c', 'd', 'e'}));
  EXPECT_EQ(ids(BosPolicy::kNone), (std::vector<int32_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
  EXPECT_EQ(ids(BosPolicy::kEveryWindow),
            (std::vector<int32_t>{256, 'a', 'b', 256, 'c', 'd', 256, 'e', 'f'}));
}

// TD-03.
TEST(EvaluationWindows, EveryWindowNeedsAStartToken) {
  Corpus corpus;
  corpus.label = "text";
  corpus.documents = {"abcdef"};
  const BytesTokenizer tokenizer(false);
  expect_error(
      [&] { evaluation_windows(corpus, &tokenizer, 3, 0, BosPolicy::kEveryWindow); },
      {"[dataset text]", "expected a tokenizer with a start token", "one without (bytes)"});
  EXPECT_EQ(evaluation_windows(corpus, &tokenizer, 3, 0, BosPolicy::kNone).count, 2);
  expect_error([] { evaluation_windows(stream(9), nullptr, 3, 0, BosPolicy::kEveryWindow); },
               {"no tokenizer"});
  expect_error([&] { evaluation_windows(corpus, nullptr, 3, 0, BosPolicy::kNone); },
               {"expected a tokenizer, got none"});
}

TEST(EvaluationWindows, TooLittleTextNamesBothNumbers) {
  expect_error([] { evaluation_windows(stream(9), nullptr, 10, 0, BosPolicy::kNone); },
               {"[dataset numbers]", "expected at least 10 tokens (one window), got 9"});
  expect_error([] { evaluation_windows(stream(9), nullptr, 0, 0, BosPolicy::kNone); },
               {"expected a window length of at least 1, got 0"});
}

// PP-14: the new C4 protocol stops at a number of windows.
TEST(EvaluationWindows, HeadStreamStopsAtItsWindows) {
  Corpus corpus = stream(100);
  corpus.rule = WindowRule::kHeadStream;
  corpus.head_windows = 3;
  const TokenWindows windows = evaluation_windows(corpus, nullptr, 10, 0, BosPolicy::kTokenizer);
  EXPECT_EQ(windows.count, 3);
  EXPECT_EQ(windows.stream_tokens, 100);
  EXPECT_EQ(windows.dropped_tokens, 70);
  EXPECT_EQ(windows.ids_sha256,
            sha256_hex(std::string(reinterpret_cast<const char*>(windows.ids.data()), 120)));
  corpus.head_windows = 256;
  EXPECT_EQ(evaluation_windows(corpus, nullptr, 10, 0, BosPolicy::kTokenizer).count, 10);
}

// CPython running the published loop (documents of 8, which it stops on, skipped), seeds 0 and 42.
const std::vector<size_t> kLengths = {5, 12, 8, 20, 9, 30, 2, 8, 11};

TEST(EvaluationWindows, OldC4DrawsWithSeedZero) {
  Corpus corpus = documents(kLengths);
  corpus.head_windows = 256;
  const BytesTokenizer tokenizer;
  const TokenWindows windows = evaluation_windows(corpus, &tokenizer, 8, 0, BosPolicy::kTokenizer);
  EXPECT_EQ(windows.count, 256);
  const auto all = places(windows);
  EXPECT_EQ(std::vector(all.begin(), all.begin() + 3),
            (std::vector<std::pair<int, int64_t>>{{4, 0}, {4, 0}, {5, 18}}));
  EXPECT_EQ(std::vector(all.end() - 3, all.end()),
            (std::vector<std::pair<int, int64_t>>{{4, 0}, {8, 0}, {8, 2}}));
  // No document is encoded twice.
  EXPECT_EQ(tokenizer.calls, static_cast<int>(kLengths.size()));
  EXPECT_EQ(places(evaluation_windows(corpus, &tokenizer, 8, 3, BosPolicy::kTokenizer)),
            std::vector(all.begin(), all.begin() + 3));
}

// The hash is that of the windows: another draw from the same text is other data.
TEST(CalibrationWindows, HashIsThatOfTheWindows) {
  const auto drawn = [](uint64_t seed) {
    return calibration_windows(stream(1000), nullptr, 3, 8, seed, Draw::kReference, 2);
  };
  const auto hash_of = [](const TokenWindows& windows) {
    return sha256_hex(std::string(reinterpret_cast<const char*>(windows.ids.data()),
                                  windows.ids.size() * sizeof(int32_t)));
  };
  const CalibrationWindows first = drawn(0);
  EXPECT_EQ(first.calibration.ids_sha256, hash_of(first.calibration));
  EXPECT_EQ(first.heldout.ids_sha256, hash_of(first.heldout));
  EXPECT_NE(first.calibration.ids_sha256, drawn(1).calibration.ids_sha256);
}

TEST(CalibrationWindows, ReferenceDrawFromDocuments) {
  const BytesTokenizer tokenizer;
  const auto drawn = [&](uint64_t seed) {
    return places(
        calibration_windows(documents(kLengths), &tokenizer, 6, 8, seed, Draw::kReference, 0)
            .calibration);
  };
  EXPECT_EQ(drawn(0), (std::vector<std::pair<int, int64_t>>{
                          {4, 0}, {4, 0}, {5, 18}, {3, 8}, {4, 0}, {1, 2}}));
  EXPECT_EQ(drawn(42),
            (std::vector<std::pair<int, int64_t>>{{1, 0}, {4, 0}, {3, 2}, {1, 0}, {1, 1}, {3, 8}}));
}

// CPython: random.seed(0); [random.randint(0, 100 - 10 - 1) for _ in range(5)].
TEST(CalibrationWindows, ReferenceDrawFromAStream) {
  const auto windows =
      calibration_windows(stream(100), nullptr, 5, 10, 0, Draw::kReference, 0).calibration;
  EXPECT_EQ(windows.starts, (std::vector<int64_t>{49, 53, 5, 33, 65}));
  EXPECT_EQ(windows.window(2)[0], 5);
  EXPECT_EQ(windows.window(2)[9], 14);
  EXPECT_EQ(windows.count, 5);
  EXPECT_EQ(windows.stream_tokens, 100);
}

// TD-11: stops, and says what there was.
TEST(CalibrationWindows, NoDocumentLongEnoughIsAnError) {
  const BytesTokenizer tokenizer;
  expect_error(
      [&] {
        calibration_windows(documents({3, 8, 7}), &tokenizer, 2, 8, 0, Draw::kReference, 0);
      },
      {"[dataset letters]",
       "expected a document of more than 8 tokens, got 3 documents of at most 8"});
  expect_error(
      [&] { calibration_windows(documents({}), &tokenizer, 2, 8, 0, Draw::kReference, 0); },
      {"got 0 documents"});
  expect_error(
      [&] {
        calibration_windows(documents({9, 10, 3}), &tokenizer, 3, 8, 0, Draw::kDisjoint, 0);
      },
      {"expected 3 documents of more than 8 tokens, got 2", "draw: reference"});
}

TEST(CalibrationWindows, TooShortStreamIsAnErrorWithBothNumbers) {
  expect_error([] { calibration_windows(stream(10), nullptr, 1, 10, 0, Draw::kReference, 0); },
               {"[dataset numbers]", "expected more than 10 tokens (one window), got 10"});
  EXPECT_EQ(
      calibration_windows(stream(11), nullptr, 3, 10, 0, Draw::kReference, 0).calibration.starts,
      (std::vector<int64_t>{0, 0, 0}));
  expect_error([] { calibration_windows(stream(49), nullptr, 5, 10, 0, Draw::kDisjoint, 0); },
               {"expected 50 tokens for 5 windows of 10 without overlap, got 49"});
  expect_error([] { calibration_windows(stream(49), nullptr, 0, 10, 0, Draw::kReference, 0); },
               {"expected at least 1 window, got 0"});
}

TEST(CalibrationWindows, DisjointDrawNeverOverlaps) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int64_t> starts =
        calibration_windows(stream(57), nullptr, 5, 10, seed, Draw::kDisjoint, 0)
            .calibration.starts;
    std::sort(starts.begin(), starts.end());
    EXPECT_GE(starts.front(), 0);
    EXPECT_LE(starts.back(), 47);
    for (size_t i = 1; i < starts.size(); ++i) EXPECT_GE(starts[i] - starts[i - 1], 10);
  }
  const BytesTokenizer tokenizer;
  std::set<int> used;
  for (const auto& [document, start] :
       places(calibration_windows(documents(kLengths), &tokenizer, 5, 8, 3, Draw::kDisjoint, 0)
                  .calibration))
    used.insert(document);
  EXPECT_EQ(used, (std::set<int>{1, 3, 4, 5, 8}));
}

TEST(CalibrationWindows, VariableDrawIsRefused) {
  expect_error([] { calibration_windows(stream(99), nullptr, 1, 10, 0, Draw::kVariable, 0); },
               {"[calibration.draw]", "not supported yet"});
}

TEST(HeldoutWindows, LieInFreeStretchesOfAStream) {
  const CalibrationWindows windows =
      calibration_windows(stream(1000), nullptr, 20, 10, 7, Draw::kReference, 8);
  EXPECT_EQ(windows.heldout.count, 8);
  EXPECT_EQ(windows.heldout_shortage, "");
  std::set<int32_t> seen(windows.calibration.ids.begin(), windows.calibration.ids.end());
  for (const int32_t id : windows.heldout.ids) EXPECT_FALSE(seen.contains(id));
  EXPECT_EQ(std::set<int32_t>(windows.heldout.ids.begin(), windows.heldout.ids.end()).size(), 80u);
  // Spread out, not all at the head.
  EXPECT_GT(windows.heldout.starts.back(), 700);
}

TEST(HeldoutWindows, ShortageIsSaid) {
  const CalibrationWindows windows =
      calibration_windows(stream(40), nullptr, 3, 10, 0, Draw::kDisjoint, 4);
  EXPECT_LE(windows.heldout.count, 1);
  EXPECT_EQ(windows.heldout_shortage,
            "asked for 4 held-out windows of 10 tokens, but numbers has only " +
                std::to_string(windows.heldout.count) + " that calibration does not use");
}

TEST(HeldoutWindows, ComeFromDocumentsThatCalibrationDoesNotUse) {
  const BytesTokenizer tokenizer;
  const CalibrationWindows windows =
      calibration_windows(documents(kLengths), &tokenizer, 3, 8, 0, Draw::kReference, 8);
  // Documents 4 and 5 were drawn; 1, 3 and 8 are long enough; windows from their middles.
  EXPECT_EQ(places(windows.heldout),
            (std::vector<std::pair<int, int64_t>>{{1, 2}, {3, 6}, {8, 1}}));
  EXPECT_NE(windows.heldout_shortage, "");
}

}  // namespace
}  // namespace gptqb
