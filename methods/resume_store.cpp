#include "methods/resume_store.h"

#include "common/error.h"

namespace gptqb {

std::map<std::string, LinearReplacement> ResumeStore::linears(int64_t block) {
  const auto finished = load(block);
  if (!finished)
    throw Error("block " + std::to_string(block),
                "expected it among the finished blocks on disk, got none. Run again");
  std::map<std::string, LinearReplacement> linears;
  for (const auto& [name, kept] : finished->linears) linears[name] = kept.replacement();
  return linears;
}

}  // namespace gptqb
