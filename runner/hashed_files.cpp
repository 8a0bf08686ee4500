#include "runner/hashed_files.h"

#include <algorithm>
#include <fstream>

#include "common/error.h"
#include "common/hash.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPiece = size_t{1} << 20;

SourceFile hashed(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(kPiece);
  Sha256 hash;
  SourceFile result;
  result.path = path.filename().string();
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    hash.add(piece.data(), static_cast<size_t>(file.gcount()));
    result.bytes += file.gcount();
  }
  if (!file.eof())
    throw Error(path.string(), "expected a file that can be read to its end, got " +
                                   std::to_string(result.bytes) + " bytes of it");
  result.sha256 = hash.hex();
  return result;
}

}  // namespace

std::vector<SourceFile> hashed_files(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string kind = entry.path().extension().string();
    if (entry.is_regular_file() &&
        (kind == ".safetensors" || kind == ".json" || kind == ".model" || kind == ".txt"))
      paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<SourceFile> files;
  for (const fs::path& path : paths) files.push_back(hashed(path));
  return files;
}

}  // namespace gptqb
