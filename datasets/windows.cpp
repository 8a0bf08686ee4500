#include "datasets/windows.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "common/error.h"
#include "common/hash.h"
#include "common/progress.h"
#include "common/random.h"

namespace gptqb {

namespace {

std::string sha256_of_ids(const std::vector<int32_t>& ids) {
  std::string bytes;
  bytes.reserve(ids.size() * 4);
  for (const int32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<char>(static_cast<uint32_t>(id) >> shift & 0xFF));
  return sha256_hex(bytes);
}

// Text to ids as one BOS policy has it, and the room a window has for them.
class Encoder {
 public:
  Encoder(const Corpus& corpus, const Tokenizer* tokenizer, int64_t seqlen, BosPolicy bos)
      : corpus_(corpus), tokenizer_(tokenizer), policy_(bos), length_(seqlen) {
    const int64_t least = bos == BosPolicy::kEveryWindow ? 2 : 1;
    if (seqlen < least)
      throw Error("dataset " + corpus.label, "expected a window length of at least " +
                                                 std::to_string(least) + ", got " +
                                                 std::to_string(seqlen));
    if (!tokenizer && corpus.tokens.empty())
      throw Error("dataset " + corpus.label, "expected a tokenizer, got none");
    if (bos == BosPolicy::kEveryWindow) {
      bos_ = tokenizer ? tokenizer->bos_id() : std::nullopt;
      if (!bos_)
        throw Error("dataset " + corpus.label,
                    "expected a tokenizer with a start token for bos 'every window', got " +
                        (tokenizer ? "one without (" + tokenizer->kind() + ")"
                                   : std::string("token ids and no tokenizer")) +
                        ". Use 'tokenizer' or 'none'");
      --length_;
    }
  }

  // Ids of text in a window.
  int64_t length() const { return length_; }

  std::vector<int32_t> encode(const std::string& text) const {
    return policy_ == BosPolicy::kTokenizer ? tokenizer_->encode_with_special(text)
                                            : tokenizer_->encode(text);
  }

  std::vector<int32_t> stream() const {
    return corpus_.tokens.empty() ? encode(corpus_.joined()) : corpus_.tokens;
  }

  // Appends one window taken from `source` at `start`.
  void append(const std::vector<int32_t>& source, int64_t start, TokenWindows& windows) const {
    if (bos_) windows.ids.push_back(*bos_);
    windows.ids.insert(windows.ids.end(), source.begin() + start, source.begin() + start + length_);
    windows.starts.push_back(start);
    ++windows.count;
  }

 private:
  const Corpus& corpus_;
  const Tokenizer* tokenizer_;
  BosPolicy policy_;
  int64_t length_;
  std::optional<int32_t> bos_;
};

TokenWindows described(const Corpus& corpus, int64_t seqlen) {
  TokenWindows windows;
  windows.seqlen = seqlen;
  windows.dataset = corpus.label;
  windows.documents = static_cast<int64_t>(corpus.documents.size());
  windows.files = corpus.files;
  return windows;
}

// Encodes documents when they are first asked for: of a shard of C4 only those that a draw meets.
class Documents {
 public:
  Documents(const Corpus& corpus, const Encoder& encoder) : corpus_(corpus), encoder_(encoder) {}

  int64_t size() const { return static_cast<int64_t>(corpus_.documents.size()); }

  // Ids of a document that has more than a window of them, else null. The published code takes
  // documents of exactly one window too and then stops on the empty range of starts.
  const std::vector<int32_t>* long_enough(int64_t index) {
    const auto [entry, is_new] = ids_.try_emplace(index);
    if (is_new) {
      entry->second = encoder_.encode(corpus_.documents[static_cast<size_t>(index)]);
      longest_ = std::max(longest_, static_cast<int64_t>(entry->second.size()));
      if (static_cast<int64_t>(entry->second.size()) <= encoder_.length()) entry->second.clear();
    }
    return entry->second.empty() ? nullptr : &entry->second;
  }

  // Makes sure that a draw with repetition ends: one document at least is long enough. The largest
  // texts are tried first, so this costs one encoding unless there is none.
  void require_one() {
    std::vector<int64_t> order(static_cast<size_t>(size()));
    std::iota(order.begin(), order.end(), 0);
    const auto bytes = [&](int64_t i) { return corpus_.documents[static_cast<size_t>(i)].size(); };
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return bytes(a) > bytes(b); });
    for (const int64_t index : order)
      if (long_enough(index)) return;
    throw Error("dataset " + corpus_.label,
                "expected a document of more than " + std::to_string(encoder_.length()) +
                    " tokens, got " + std::to_string(size()) + " documents of at most " +
                    std::to_string(longest_) + ". Use a smaller seqlen or another dataset");
  }

 private:
  const Corpus& corpus_;
  const Encoder& encoder_;
  std::unordered_map<int64_t, std::vector<int32_t>> ids_;  // empty: too short
  int64_t longest_ = 0;
};

struct DrawnDocuments {
  TokenWindows windows;
  std::vector<bool> used;  // by document
};

// protocol.md section 1: a random document, again until it is long enough, then a random start in
// it.
DrawnDocuments draw_documents(const Corpus& corpus, const Encoder& encoder, Documents& documents,
                              int64_t count, int64_t seqlen, uint64_t seed,
                              bool without_repetition) {
  DrawnDocuments drawn{described(corpus, seqlen), std::vector<bool>(corpus.documents.size())};
  documents.require_one();
  PythonRandom random(seed);
  std::vector<int64_t> rest(corpus.documents.size());
  std::iota(rest.begin(), rest.end(), 0);
  while (drawn.windows.count < count) {
    throw_if_interrupted();
    if (rest.empty())
      throw Error("dataset " + corpus.label,
                  "expected " + std::to_string(count) + " documents of more than " +
                      std::to_string(encoder.length()) + " tokens, got " +
                      std::to_string(drawn.windows.count) +
                      ". Use fewer samples, a smaller seqlen, or draw: reference, which may use a "
                      "document twice");
    const auto place =
        static_cast<size_t>(random.randint(0, static_cast<int64_t>(rest.size()) - 1));
    const int64_t index = rest[place];
    if (without_repetition) {
      rest[place] = rest.back();
      rest.pop_back();
    }
    const std::vector<int32_t>* ids = documents.long_enough(index);
    if (!ids) continue;
    const auto tokens = static_cast<int64_t>(ids->size());
    encoder.append(*ids, random.randint(0, tokens - encoder.length() - 1), drawn.windows);
    if (!drawn.used[static_cast<size_t>(index)]) drawn.windows.stream_tokens += tokens;
    drawn.used[static_cast<size_t>(index)] = true;
  }
  drawn.windows.ids_sha256 = sha256_of_ids(drawn.windows.ids);
  return drawn;
}

TokenWindows heldout_documents(const Corpus& corpus, const Encoder& encoder, Documents& documents,
                               const std::vector<bool>& used, int64_t count, int64_t seqlen) {
  TokenWindows windows = described(corpus, seqlen);
  for (int64_t index = 0; index < documents.size() && windows.count < count; ++index) {
    if (used[static_cast<size_t>(index)]) continue;
    const std::vector<int32_t>* ids = documents.long_enough(index);
    if (!ids) continue;
    const auto tokens = static_cast<int64_t>(ids->size());
    encoder.append(*ids, (tokens - encoder.length()) / 2, windows);
    windows.stream_tokens += tokens;
  }
  windows.ids_sha256 = sha256_of_ids(windows.ids);
  return windows;
}

// Starts of random windows of a stream.
std::vector<int64_t> draw_starts(const std::string& label, int64_t tokens, int64_t samples,
                                 int64_t seqlen, uint64_t seed, Draw draw) {
  PythonRandom random(seed);
  std::vector<int64_t> starts;
  if (draw == Draw::kReference) {
    // The published range leaves out the last possible start, so a stream of exactly one window has
    // none.
    if (tokens <= seqlen)
      throw Error("dataset " + label, "expected more than " + std::to_string(seqlen) +
                                          " tokens (one window), got " + std::to_string(tokens) +
                                          ". Use a smaller seqlen or more text");
    for (int64_t i = 0; i < samples; ++i) starts.push_back(random.randint(0, tokens - seqlen - 1));
    return starts;
  }
  const int64_t places = tokens / seqlen;
  if (places < samples)
    throw Error("dataset " + label,
                "expected " + std::to_string(samples * seqlen) + " tokens for " +
                    std::to_string(samples) + " windows of " + std::to_string(seqlen) +
                    " without overlap, got " + std::to_string(tokens) +
                    ". Use fewer samples, a smaller seqlen, more text, or draw: reference");
  const int64_t shift = random.randint(0, tokens - places * seqlen);
  std::vector<int64_t> rest(static_cast<size_t>(places));
  std::iota(rest.begin(), rest.end(), 0);
  for (int64_t i = 0; i < samples; ++i) {
    const auto place =
        static_cast<size_t>(random.randint(0, static_cast<int64_t>(rest.size()) - 1));
    starts.push_back(shift + rest[place] * seqlen);
    rest[place] = rest.back();
    rest.pop_back();
  }
  return starts;
}

// Starts of windows in the stretches between `taken` ones, at most `count`, evenly spread over all
// there are.
std::vector<int64_t> free_starts(std::vector<int64_t> taken, int64_t tokens, int64_t seqlen,
                                 int64_t count) {
  std::sort(taken.begin(), taken.end());
  taken.push_back(tokens);
  std::vector<int64_t> all;
  int64_t begin = 0;
  for (const int64_t next : taken) {
    for (; begin + seqlen <= next; begin += seqlen) all.push_back(begin);
    begin = std::max(begin, next + seqlen);
  }
  const auto available = static_cast<int64_t>(all.size());
  if (available <= count) return all;
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < count; ++i)
    chosen.push_back(all[static_cast<size_t>(i * available / count)]);
  return chosen;
}

}  // namespace

TokenWindows evaluation_windows(const Corpus& corpus, const Tokenizer* tokenizer, int64_t seqlen,
                                int64_t max_windows, BosPolicy bos) {
  const Encoder encoder(corpus, tokenizer, seqlen, bos);
  if (corpus.rule == WindowRule::kRandomDocuments) {
    const int64_t count =
        max_windows > 0 ? std::min(max_windows, corpus.head_windows) : corpus.head_windows;
    constexpr uint64_t kPublishedSeed = 0;
    Documents documents(corpus, encoder);
    return draw_documents(corpus, encoder, documents, count, seqlen, kPublishedSeed, false).windows;
  }
  const std::vector<int32_t> stream = encoder.stream();
  TokenWindows windows = described(corpus, seqlen);
  windows.stream_tokens = static_cast<int64_t>(stream.size());
  int64_t available = windows.stream_tokens / encoder.length();
  if (corpus.rule == WindowRule::kHeadStream) available = std::min(available, corpus.head_windows);
  if (available == 0)
    throw Error("dataset " + corpus.label, "expected at least " + std::to_string(encoder.length()) +
                                               " tokens (one window), got " +
                                               std::to_string(windows.stream_tokens) +
                                               ". Use a smaller seqlen or more text");
  windows.dropped_tokens = windows.stream_tokens - available * encoder.length();
  const int64_t count = max_windows > 0 ? std::min(max_windows, available) : available;
  windows.ids.reserve(static_cast<size_t>(count * seqlen));
  for (int64_t i = 0; i < count; ++i) encoder.append(stream, i * encoder.length(), windows);
  windows.ids_sha256 = sha256_of_ids(corpus.rule == WindowRule::kStream ? stream : windows.ids);
  return windows;
}

CalibrationWindows calibration_windows(const Corpus& corpus, const Tokenizer* tokenizer,
                                       int64_t samples, int64_t seqlen, uint64_t seed, Draw draw,
                                       int64_t heldout) {
  if (draw == Draw::kVariable)
    throw Error("calibration.draw",
                "expected reference or disjoint, got variable, which is not supported yet");
  if (samples < 1)
    throw Error("calibration.samples",
                "expected at least 1 window, got " + std::to_string(samples));
  const Encoder encoder(corpus, tokenizer, seqlen, BosPolicy::kTokenizer);
  CalibrationWindows result;
  if (corpus.rule == WindowRule::kRandomDocuments) {
    Documents documents(corpus, encoder);
    DrawnDocuments drawn =
        draw_documents(corpus, encoder, documents, samples, seqlen, seed, draw == Draw::kDisjoint);
    result.calibration = std::move(drawn.windows);
    result.heldout = heldout_documents(corpus, encoder, documents, drawn.used, heldout, seqlen);
  } else {
    const std::vector<int32_t> stream = encoder.stream();
    const auto tokens = static_cast<int64_t>(stream.size());
    const std::vector<int64_t> starts =
        draw_starts(corpus.label, tokens, samples, seqlen, seed, draw);
    const auto fill = [&](const std::vector<int64_t>& from, TokenWindows& windows) {
      windows = described(corpus, seqlen);
      windows.stream_tokens = tokens;
      for (const int64_t start : from) encoder.append(stream, start, windows);
      windows.ids_sha256 = sha256_of_ids(windows.ids);
    };
    fill(starts, result.calibration);
    fill(free_starts(starts, tokens, seqlen, heldout), result.heldout);
  }
  if (result.heldout.count < heldout)
    result.heldout_shortage = "asked for " + std::to_string(heldout) + " held-out windows of " +
                              std::to_string(seqlen) + " tokens, but " + corpus.label +
                              " has only " + std::to_string(result.heldout.count) +
                              " that calibration does not use";
  return result;
}

}  // namespace gptqb
