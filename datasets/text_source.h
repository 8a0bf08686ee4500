// Text files of the data folder: found under several names, checked, and fingerprinted while they
// are read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/dataset.h"

namespace gptqb {

// `path`, then with .gz, .xz and .zst appended: the order in which they are looked for.
std::vector<std::filesystem::path> spellings(const std::filesystem::path& path);

// The first spelling that exists.
std::optional<std::filesystem::path> find_spelling(const std::filesystem::path& path);

struct Text {
  std::string content;
  SourceFile file;
};

// The whole of `path`, uncompressed. `SourceFile::path` is relative to `root` where it lies inside.
// Throws Error naming path and byte offset if the text is not UTF-8 (the published loaders refuse
// such files too).
Text read_text(const std::filesystem::path& path, const std::filesystem::path& root);

// The bytes of `path`, uncompressed, with no check of what they mean.
Text read_bytes(const std::filesystem::path& path, const std::filesystem::path& root);

// Hands each line (newline included where there is one) to `line` with its number from 1, without
// keeping the file.
SourceFile read_lines(const std::filesystem::path& path, const std::filesystem::path& root,
                      const std::function<void(std::string_view, int64_t)>& line);

// The strings under `field` of a file with one JSON object a line (lines of white space are
// skipped), at most `max_documents` of them; the fingerprint is that of the whole file all the
// same. Throws Error naming file and line.
SourceFile read_json_lines(const std::filesystem::path& path, const std::filesystem::path& root,
                           const std::string& field, std::vector<std::string>& documents,
                           int64_t max_documents = std::numeric_limits<int64_t>::max());

// As read_json_lines() throws for the first document, of which nothing behind is read; a file
// without documents is none of its business.
void check_first_json_line(const std::filesystem::path& path, const std::string& field);

// Lines of `text`, each with its newline where it has one.
std::vector<std::string_view> split_lines(std::string_view text);

}  // namespace gptqb
