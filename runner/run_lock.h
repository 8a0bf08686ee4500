// One run at a time in an output folder, so that results of two never mix.
#pragma once

#include <filesystem>

namespace gptqb {

// Holds <output>/.lock (flock: the system lets go of it when the process ends, however it ends) and
// writes this process's id into it. Throws Error naming the id of the process that has it.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& output);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace gptqb
