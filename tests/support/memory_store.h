// Finished blocks kept in memory instead of files.
#pragma once

#include <map>
#include <mutex>
#include <optional>

#include "methods/resume_store.h"

namespace gptqb::test {

// `blocks` may be looked at once nothing is saved any more.
class MemoryStore : public ResumeStore {
 public:
  std::optional<FinishedBlock> load(int64_t block) override {
    const std::lock_guard lock(mutex_);
    const auto found = blocks.find(block);
    return found == blocks.end() ? std::nullopt : std::optional(found->second);
  }
  void save(int64_t block, const FinishedBlock& finished) override {
    const std::lock_guard lock(mutex_);
    blocks[block] = finished;
  }
  std::map<int64_t, FinishedBlock> blocks;

 private:
  std::mutex mutex_;
};

}  // namespace gptqb::test
