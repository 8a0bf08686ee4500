// Files of named datasets under the data folder, and what to tell a user who does not have them.
#pragma once

#include <filesystem>
#include <string>

namespace gptqb {

// One file of a published dataset.
struct LocalFile {
  std::string dataset;  // "wikitext2@test": named in messages
  std::string path;     // below the data folder: "wikitext-2-raw/wiki.test.raw"
  std::string
      how_to_get;  // a sentence: the public name of the dataset and which of its files this is
};

// The file plain or compressed (.gz, .xz, .zst, in that order). Throws one Error that names the
// file, every path that was tried, how to get it, and GPTQ_BENCH_DATA.
std::filesystem::path locate(const LocalFile& file, const std::filesystem::path& data_root);

}  // namespace gptqb
