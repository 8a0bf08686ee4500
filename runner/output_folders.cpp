#include "runner/output_folders.h"

#include <algorithm>

#include "common/error.h"

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

std::vector<std::filesystem::path> required_output_folders(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<fs::path> found = output_folders(folder);
  const auto has_records = [](const fs::path& output) {
    for (const auto& entry : fs::directory_iterator(output / "records"))
      if (entry.path().extension() == ".json") return true;
    return false;
  };
  if (std::none_of(found.begin(), found.end(), has_records))
    throw Error(folder.string(),
                "expected an output folder (one that holds records/), or one of such folders, "
                "found none with a record");
  return found;
}

}  // namespace gptqb
