// The smallest model that somebody trained: llama2.c's stories260K, made into a Hugging Face
// folder.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/shared.h"

namespace gptqb::test {

inline std::filesystem::path stories260k_source() { return shared_root() / "models/stories260K"; }
inline std::filesystem::path tinystories_sample() {
  return shared_root() / "data/tinystories/tinystories_sample.txt";
}

// Makes the folder `out` from stories260k_source(); false if the script fails.
inline bool make_stories260k(const std::filesystem::path& out) {
  const std::string convert =
      "python3 " GPTQB_SOURCE_DIR "/scripts/convert_stories260k.py --model " +
      (stories260k_source() / "stories260K.bin.xz").string() + " --tokenizer " +
      (stories260k_source() / "tok512.bin").string() + " --out " + out.string() + " >&2";
  return std::system(convert.c_str()) == 0;
}

}  // namespace gptqb::test
