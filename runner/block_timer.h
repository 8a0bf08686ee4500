// How long the blocks of a quantization take, and what all of them will.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/progress.h"
#include "methods/clock.h"

namespace gptqb {

// Thrown by BlockTimer when it has seen enough.
struct EnoughBlocks {};

// Hands everything on to `inner`, and looks at the clock whenever quantize_model has finished a
// block. What was measured from its making to the end of the second block is what all blocks are
// planned from: the first pays for what happens once, the second is one of many.
class BlockTimer : public Progress {
 public:
  // `stop`: throw EnoughBlocks behind the second block, if there are more.
  BlockTimer(Progress& inner, at::Device device, bool stop)
      : inner_(inner), watch_(device), stop_(stop) {}

  void begin(const std::string& what, int64_t total) override {
    timing_ = what == "blocks";
    if (timing_) total_ = total;
    inner_.begin(what, total);
  }
  void advance(int64_t steps) override {
    if (timing_ && ends_.size() < 2) {
      ends_.push_back(watch_.seconds());
      if (stop_ && ends_.size() == 2 && total_ > 2) throw EnoughBlocks();
    }
    inner_.advance(steps);
  }
  void note(const std::string& line) override { inner_.note(line); }

  // Seconds from its making to the last block's end, if each takes what the second took; empty
  // unless there were two.
  std::optional<double> planned() const {
    if (ends_.size() < 2) return std::nullopt;
    return ends_[0] + (ends_[1] - ends_[0]) * static_cast<double>(total_ - 1);
  }

 private:
  Progress& inner_;
  Stopwatch watch_;
  bool stop_;
  bool timing_ = false;
  int64_t total_ = 0;
  std::vector<double> ends_;
};

}  // namespace gptqb
