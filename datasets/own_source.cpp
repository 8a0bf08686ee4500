#include "datasets/own_source.h"

#include <charconv>
#include <limits>

#include "common/error.h"
#include "common/text.h"
#include "datasets/text_source.h"

namespace gptqb {

namespace fs = std::filesystem;

namespace {

std::vector<int32_t> parse_ids(std::string_view text, const fs::path& path) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  std::vector<int32_t> ids;
  size_t begin = 0;
  while ((begin = text.find_first_not_of(kSpace, begin)) != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    int32_t id = 0;
    const auto [stop, code] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (code != std::errc() || stop != word.data() + word.size() || id < 0)
      throw Error(path.string(),
                  "expected token ids from 0 to 2147483647 separated by white space, got '" +
                      std::string(word.substr(0, 40)) + "' at byte " + std::to_string(begin));
    ids.push_back(id);
    begin = end;
  }
  return ids;
}

std::vector<int32_t> decode_ids(std::string_view bytes, const fs::path& path) {
  if (bytes.size() % 4 != 0)
    throw Error(path.string(), "expected little-endian int32 ids, a multiple of 4 bytes, got " +
                                   std::to_string(bytes.size()) + " bytes");
  std::vector<int32_t> ids(bytes.size() / 4);
  for (size_t i = 0; i < ids.size(); ++i) {
    uint32_t id = 0;
    for (size_t byte = 0; byte < 4; ++byte)
      id |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[4 * i + byte])) << (8 * byte);
    if (id > static_cast<uint32_t>(std::numeric_limits<int32_t>::max()))
      throw Error(path.string(), "expected token ids from 0 to 2147483647, got " +
                                     std::to_string(static_cast<int32_t>(id)) + " at byte " +
                                     std::to_string(4 * i));
    ids[i] = static_cast<int32_t>(id);
  }
  return ids;
}

// Whether the name without the ending of a compression ends in .bin.
bool is_binary(fs::path path) {
  for (const char* ending : {".gz", ".xz", ".zst"})
    if (path.extension() == ending) path.replace_extension();
  return path.extension() == ".bin";
}

struct Located {
  std::string kind;  // "text", "jsonl", "tokens"
  fs::path file;
};

Located locate_source(const DatasetSpec& spec, const fs::path& base) {
  const size_t colon = spec.source.find(':');
  const std::string kind = spec.source.substr(0, colon);
  if (colon == std::string::npos || colon + 1 == spec.source.size() ||
      (kind != "text" && kind != "jsonl" && kind != "tokens"))
    throw Error(
        "dataset " + spec.name,
        "expected source 'text:PATH', 'jsonl:PATH' or 'tokens:PATH', got '" + spec.source + "'");
  const fs::path wanted = base / spec.source.substr(colon + 1);
  const auto found = find_spelling(wanted);
  if (!found) {
    std::vector<std::string> tried;
    for (const auto& spelling : spellings(wanted)) tried.push_back(spelling.string());
    throw Error("dataset " + spec.name, "expected the file of source '" + spec.source +
                                            "', got none of " + join(tried, ", ") +
                                            ". A relative path starts at the current directory");
  }
  return {kind, *found};
}

}  // namespace

void check_own_source(const DatasetSpec& spec, const fs::path& base) {
  const Located source = locate_source(spec, base);
  if (source.kind == "jsonl") check_first_json_line(source.file, spec.field);
}

Corpus load_own_source(const DatasetSpec& spec, const fs::path& data_root, const fs::path& base) {
  const auto [kind, file] = locate_source(spec, base);
  Corpus corpus;
  corpus.label = spec.name;
  corpus.join = spec.join;
  if (kind == "text") {
    Text text = read_text(file, data_root);
    corpus.documents.push_back(std::move(text.content));
    corpus.files.push_back(text.file);
  } else if (kind == "jsonl") {
    corpus.files.push_back(read_json_lines(file, data_root, spec.field, corpus.documents));
  } else {
    const Text text = read_bytes(file, data_root);
    corpus.tokens =
        is_binary(file) ? decode_ids(text.content, file) : parse_ids(text.content, file);
    corpus.files.push_back(text.file);
  }
  if (corpus.documents.empty() && corpus.tokens.empty())
    throw Error(file.string(), std::string("expected ") +
                                   (kind == "tokens" ? "token ids" : "documents") +
                                   " for dataset " + spec.name + ", got none");
  return corpus;
}

}  // namespace gptqb
