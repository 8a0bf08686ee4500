#include "methods/resume_store.h"

#include "common/error.h"

namespace gptqb {

std::map<std::string, KeptLinear> ResumeStore::linears(int64_t block) {
  auto finished = load(block);
  if (!finished)
    throw Error("block " + std::to_string(block),
                "expected it among the finished blocks on disk, got none. Run again");
  return std::move(finished->linears);
}

}  // namespace gptqb
