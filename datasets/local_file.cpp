#include "datasets/local_file.h"

#include "common/error.h"
#include "common/text.h"
#include "datasets/text_source.h"

namespace gptqb {

std::filesystem::path locate(const LocalFile& file, const std::filesystem::path& data_root) {
  if (data_root.empty())
    throw Error(file.dataset, "expected GPTQ_BENCH_DATA to name the folder that holds " +
                                  file.path + " (plain or as .gz, .xz, .zst), got no folder. " +
                                  file.how_to_get);
  const std::filesystem::path path = data_root / file.path;
  if (const auto found = find_spelling(path)) return *found;
  std::vector<std::string> tried;
  for (const auto& spelling : spellings(path)) tried.push_back(spelling.string());
  throw Error(file.dataset, "expected the file " + file.path + ", got none of " +
                                join(tried, ", ") + ". " + file.how_to_get +
                                " Put it there, or set GPTQ_BENCH_DATA to the folder that holds " +
                                file.path);
}

}  // namespace gptqb
