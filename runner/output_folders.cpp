#include "runner/output_folders.h"

#include <algorithm>

namespace gptqb {

std::vector<std::filesystem::path> output_folders(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (fs::is_directory(folder / "records")) return {folder};
  std::vector<fs::path> found;
  std::error_code failed;
  for (const auto& entry : fs::recursive_directory_iterator(folder, failed))
    if (entry.is_directory() && entry.path().filename() == "records")
      found.push_back(entry.path().parent_path());
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace gptqb
