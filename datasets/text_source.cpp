#include "datasets/text_source.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/hash.h"
#include "datasets/decompress.h"
#include "datasets/utf8.h"

namespace gptqb {

namespace fs = std::filesystem;

namespace {

std::string recorded_path(const fs::path& path, const fs::path& root) {
  if (!root.empty()) {
    const fs::path inside = path.lexically_normal().lexically_relative(root.lexically_normal());
    if (!inside.empty() && *inside.begin() != "..") return inside.generic_string();
  }
  return path.lexically_normal().generic_string();
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// The text under `field` of a line with one JSON object; `where` names the line.
std::string document_of(std::string_view line, const std::string& field, const std::string& where) {
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(line);
  } catch (const nlohmann::json::exception& error) {
    throw Error(where, std::string("expected one JSON object on this line, got: ") + error.what());
  }
  if (!object.is_object())
    throw Error(where, std::string("expected one JSON object on this line, got a JSON ") +
                           object.type_name());
  const auto found = object.find(field);
  if (found == object.end()) {
    std::string keys;
    for (const auto& item : object.items()) keys += (keys.empty() ? "" : ", ") + item.key();
    throw Error(where, "expected the key '" + field + "', got " +
                           (keys.empty() ? "no key" : "only " + keys) +
                           ". Name the key that holds the text with `field`");
  }
  if (!found->is_string())
    throw Error(where, "expected text under '" + field + "', got a JSON " + found->type_name());
  return found->get<std::string>();
}

}  // namespace

std::vector<fs::path> spellings(const fs::path& path) {
  std::vector<fs::path> result;
  for (const char* ending : {"", ".gz", ".xz", ".zst"}) result.push_back(path.string() + ending);
  return result;
}

std::optional<fs::path> find_spelling(const fs::path& path) {
  for (const fs::path& spelling : spellings(path))
    if (fs::exists(spelling)) return spelling;
  return std::nullopt;
}

Text read_bytes(const fs::path& path, const fs::path& root) {
  Text text;
  Sha256 hash;
  read_uncompressed(path, [&](std::string_view piece) {
    hash.add(piece);
    text.content += piece;
  });
  text.file = {recorded_path(path, root), hash.hex(), static_cast<int64_t>(text.content.size())};
  return text;
}

Text read_text(const fs::path& path, const fs::path& root) {
  Text text = read_bytes(path, root);
  if (const auto offset = find_invalid_utf8(text.content))
    throw Error(path.string(), "expected UTF-8 text, got a byte that is none at offset " +
                                   std::to_string(*offset) +
                                   " of the uncompressed text. Convert the file to UTF-8 (iconv)");
  return text;
}

SourceFile read_lines(const fs::path& path, const fs::path& root,
                      const std::function<void(std::string_view, int64_t)>& line) {
  Sha256 hash;
  int64_t bytes = 0;
  int64_t number = 0;
  std::string unfinished;
  read_uncompressed(path, [&](std::string_view piece) {
    hash.add(piece);
    bytes += static_cast<int64_t>(piece.size());
    while (true) {
      const size_t newline = piece.find('\n');
      if (newline == std::string_view::npos) {
        unfinished += piece;
        return;
      }
      ++number;
      if (unfinished.empty()) {
        line(piece.substr(0, newline + 1), number);
      } else {
        unfinished += piece.substr(0, newline + 1);
        line(unfinished, number);
        unfinished.clear();
      }
      piece.remove_prefix(newline + 1);
    }
  });
  if (!unfinished.empty()) line(unfinished, number + 1);
  return {recorded_path(path, root), hash.hex(), bytes};
}

SourceFile read_json_lines(const fs::path& path, const fs::path& root, const std::string& field,
                           std::vector<std::string>& documents, int64_t max_documents) {
  return read_lines(path, root, [&](std::string_view line, int64_t number) {
    if (is_blank(line) || static_cast<int64_t>(documents.size()) >= max_documents) return;
    documents.push_back(document_of(line, field, path.string() + ":" + std::to_string(number)));
  });
}

void check_first_json_line(const fs::path& path, const std::string& field) {
  struct Seen {};
  try {
    read_lines(path, "", [&](std::string_view line, int64_t number) {
      if (is_blank(line)) return;
      document_of(line, field, path.string() + ":" + std::to_string(number));
      throw Seen();  // there is no other way out of a file that is being read
    });
  } catch (const Seen&) {
  }
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const size_t length = newline == std::string_view::npos ? text.size() : newline + 1;
    lines.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return lines;
}

}  // namespace gptqb
