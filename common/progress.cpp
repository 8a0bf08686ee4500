#include "common/progress.h"

#include "common/error.h"

namespace gptqb {
namespace {

class SilentProgress : public Progress {
 public:
  void begin(const std::string&, int64_t) override {}
  void advance(int64_t) override {}
  void note(const std::string&) override {}
};

}  // namespace

Progress& silent_progress() {
  static SilentProgress silent;
  return silent;
}

std::atomic<bool>& interrupt_requested() {
  static std::atomic<bool> requested{false};
  return requested;
}

void throw_if_interrupted() {
  if (interrupt_requested().load(std::memory_order_relaxed)) throw Interrupted();
}

}  // namespace gptqb
