// Windows of token ids: what calibration and evaluation run on, fixed by (dataset, tokenizer,
// protocol, seed).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/tokenizer.h"

namespace gptqb {

// `count` windows of `seqlen` ids each, row-major, and where they came from.
struct TokenWindows {
  int64_t count = 0;
  int64_t seqlen = 0;
  std::vector<int32_t> ids;  // [count, seqlen]
  std::string dataset;       // label of the corpus
  int64_t documents = 0;     // rows or documents of the corpus; 0 for token ids
  int64_t stream_tokens =
      0;  // ids of the whole stream (kStream, kHeadStream), of all documents used else
  int64_t dropped_tokens =
      0;  // ids of a stream after the last window that the protocol takes from it; 0 for draws
  std::vector<int64_t> starts;  // of each window in the stream, or within its document
  // Of ids as little-endian int32: `ids`; of evaluation windows of a kStream corpus, which its
  // length and their number fix, the whole stream's, as others publish it.
  std::string ids_sha256;
  std::vector<SourceFile> files;

  const int32_t* window(int64_t index) const { return ids.data() + index * seqlen; }
};

enum class BosPolicy {
  kTokenizer,  // as the tokenizer's default: at most one, at the head of each encoded string (the
               // published protocol)
  kNone,
  kEveryWindow,  // each window starts with BOS and holds seqlen - 1 ids of text
};

enum class Draw {
  kReference,  // the published random windows, overlaps allowed
  kDisjoint,   // random windows without overlap
  kVariable,   // whole documents of any length (not supported yet)
};

// Disjoint windows in order, tail dropped (protocol.md section 3); `max_windows` 0 = all. Random
// documents (the old C4 protocol) are drawn with seed 0; a document of exactly `seqlen` ids, on
// which the published code stops with an error, is not used. `tokenizer` may be null for a corpus
// of token ids. Throws Error if not one window can be filled (names tokens found and needed) or if
// kEveryWindow is asked of a tokenizer without BOS.
TokenWindows evaluation_windows(const Corpus& corpus, const Tokenizer* tokenizer, int64_t seqlen,
                                int64_t max_windows, BosPolicy bos);

struct CalibrationWindows {
  TokenWindows calibration;
  TokenWindows heldout;  // disjoint from `calibration`; may hold fewer than asked for, or none
  std::string heldout_shortage;  // empty, or why there are fewer held-out windows than asked for
};

// `samples` windows of `seqlen` ids drawn with random.seed(seed) exactly as the published code
// (protocol.md section 1); documents of exactly `seqlen` ids as above. kDisjoint: from a stream,
// places on a grid of `seqlen` (shifted at random) without repetition; from documents, each
// document at most once. Held-out windows: from a stream, evenly spread over the stretches that
// calibration leaves free; from documents, the middles of the first ones not used. Throws Error
// when the corpus is too small: names tokens (or documents long enough) found and needed.
CalibrationWindows calibration_windows(const Corpus& corpus, const Tokenizer* tokenizer,
                                       int64_t samples, int64_t seqlen, uint64_t seed, Draw draw,
                                       int64_t heldout);

}  // namespace gptqb
