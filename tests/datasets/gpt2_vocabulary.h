// GPT-2's vocabulary out of the shared folder, laid out as tests need it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "common/atomic_file.h"
#include "datasets/text_source.h"
#include "tests/support/shared.h"
#include "tests/support/temporary_folder.h"

namespace gptqb::test {

inline std::filesystem::path gpt2_vocabulary_file() {
  return shared_root() / "models" / "gpt2-tokenizer" / "vocab.json.xz";
}
inline std::filesystem::path gpt2_merges_file() {
  return shared_root() / "models" / "gpt2-tokenizer" / "merges.txt";
}

// vocab.json and merges.txt.
inline void write_gpt2_files(const TemporaryFolder& folder) {
  folder.write("vocab.json", read_bytes(gpt2_vocabulary_file(), "").content);
  folder.write("merges.txt", read_file(gpt2_merges_file()));
}

// The same as the object of a tokenizer.json with a given pre-tokenizer.
inline nlohmann::json gpt2_tokenizer_json(const nlohmann::json& pre_tokenizer) {
  nlohmann::json merges = nlohmann::json::array();
  const std::string text = read_file(gpt2_merges_file());
  for (const std::string_view line : split_lines(text))
    if (line.size() > 1 && !line.starts_with("#version"))
      merges.push_back(line.substr(0, line.size() - 1));
  return {{"version", "1.0"},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", pre_tokenizer},
          {"post_processor", nullptr},
          {"model",
           {{"type", "BPE"},
            {"vocab", nlohmann::json::parse(read_bytes(gpt2_vocabulary_file(), "").content)},
            {"merges", merges}}}};
}

}  // namespace gptqb::test
