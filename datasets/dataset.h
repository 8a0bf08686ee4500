// Named sources of text and the protocol each name stands for (shared/reference/protocol.md
// sections 1 and 2).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/registry.h"

namespace gptqb {

// A dataset as an experiment names it: "wikitext2", "wikitext2@train-head", or own text with a
// source.
struct DatasetSpec {
  std::string name;    // registry name, or the user's own name if `source` is set
  std::string split;   // after '@'; empty: the protocol's split for the purpose
  std::string source;  // "text:PATH", "jsonl:PATH", "tokens:PATH"; empty: a registered dataset
  std::string join = "\n\n";   // own sources: put between documents
  std::string field = "text";  // own jsonl: the key holding the text
  bool operator==(const DatasetSpec&) const = default;

  // Parses "name" or "name@split"; throws Error on an unknown name or split, listing the known
  // ones.
  static DatasetSpec parse(const std::string& text);
  // "wikitext2@train-head": the inverse of parse for registered names, `name` for own sources.
  // Names the metric.
  std::string label() const;
};

enum class Purpose { kCalibration, kEvaluation };

// A file that was read, for the record.
struct SourceFile {
  std::string path;    // relative to the data folder where it lies inside it
  std::string sha256;  // of the uncompressed bytes
  int64_t bytes = 0;   // uncompressed
};

// How windows are cut from a corpus.
enum class WindowRule {
  kStream,  // all documents joined and tokenized once; consecutive windows or random starts
  kRandomDocuments,  // a random document that is long enough, then a random start in it (C4,
                     // protocol.md sections 1, 2)
  kHeadStream,       // the first documents joined, cut to a fixed number of windows (C4 new, 1100
                     // documents, 256 windows)
};

// Text of one split under one protocol. `documents` are rows exactly as the protocol joins them.
struct Corpus {
  std::string label;  // "wikitext2@test"
  std::vector<std::string> documents;
  std::string join;  // put between documents in the stream
  WindowRule rule = WindowRule::kStream;
  int64_t head_windows = 0;     // kHeadStream and kRandomDocuments evaluation: number of windows
  std::vector<int32_t> tokens;  // `tokens:` sources: ids instead of documents
  std::vector<SourceFile> files;

  // The stream's text: documents with `join` between them.
  std::string joined() const;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  // What may follow '@'.
  virtual std::vector<std::string> splits() const = 0;
  // `split` empty: the protocol's own for `purpose`, else one of splits(), read under the same
  // protocol. Throws Error naming the file, every path that was tried, and how to get it.
  virtual Corpus load(Purpose purpose, const std::string& split,
                      const std::filesystem::path& data_root) const = 0;
};

using DatasetFactory = std::unique_ptr<Dataset> (*)();
const Registry<DatasetFactory>& datasets();

// Reads `spec` for `purpose`. `data_root` is $GPTQ_BENCH_DATA; relative paths of own sources start
// at `base`. Own sources: `text:` is one document, the file as it is; `jsonl:` one JSON object a
// line, a document each; both may be compressed. `tokens:` is ids separated by white space, or a
// .bin of little-endian int32.
Corpus load_corpus(const DatasetSpec& spec, Purpose purpose, const std::filesystem::path& data_root,
                   const std::filesystem::path& base);

}  // namespace gptqb
