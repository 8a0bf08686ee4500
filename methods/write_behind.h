// Finished blocks on their way to where they are kept, while the next block is computed.
#pragma once

#include <cstdint>
#include <future>

#include "methods/resume_store.h"

namespace gptqb {

// One block at a time, in order, in a thread of its own. Going out of scope waits for the block
// that is being written.
class WriteBehind {
 public:
  // `store` must live longer.
  explicit WriteBehind(ResumeStore& store) : store_(store) {}

  // Starts on `finished`, once the block before it is kept. Throws what the store threw for that
  // one.
  void save(int64_t block, FinishedBlock finished);
  // Waits until all is kept. Throws what the store threw.
  void finish();

  // Of the thread, and of those who waited for it.
  double busy_seconds() const { return busy_seconds_; }
  double waited_seconds() const { return waited_seconds_; }

 private:
  ResumeStore& store_;
  std::future<double> writing_;  // its seconds
  double busy_seconds_ = 0;
  double waited_seconds_ = 0;
};

}  // namespace gptqb
