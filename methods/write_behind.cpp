#include "methods/write_behind.h"

#include <c10/core/InferenceMode.h>

#include <chrono>
#include <utility>

#include "common/seconds_since.h"

namespace gptqb {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void WriteBehind::save(int64_t block, FinishedBlock finished) {
  finish();
  writing_ = std::async(std::launch::async, [this, block, finished = std::move(finished),
                                             inference = c10::InferenceMode::is_enabled()] {
    const c10::InferenceMode as_the_caller(inference);
    const auto start = Clock::now();
    store_.save(block, finished);
    return seconds_since(start);
  });
}

void WriteBehind::finish() {
  if (!writing_.valid()) return;
  const auto start = Clock::now();
  writing_.wait();
  waited_seconds_ += seconds_since(start);
  busy_seconds_ += writing_.get();
}

}  // namespace gptqb
