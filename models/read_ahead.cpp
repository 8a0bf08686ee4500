#include "models/read_ahead.h"

#include <c10/core/InferenceMode.h>

#include <chrono>
#include <utility>

namespace gptqb {

void ReadAhead::start(int64_t block, std::vector<std::string> names, Load load) {
  drop();
  block_ = block;
  const auto read = [this, names = std::move(names), load = std::move(load),
                     inference = c10::InferenceMode::is_enabled()] {
    const c10::InferenceMode as_the_caller(inference);
    const auto start = std::chrono::steady_clock::now();
    Read result;
    for (const std::string& name : names) {
      if (stop_) break;
      result.weights.emplace(name, load(name));
    }
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  };
  reading_ = std::async(std::launch::async, read);
}

ReadAhead::Weights ReadAhead::take(int64_t block) {
  if (!reading_.valid() || block != block_) return {};
  Read read = reading_.get();
  busy_seconds_ += read.seconds;
  return std::move(read.weights);
}

void ReadAhead::drop() {
  if (!reading_.valid()) return;
  stop_ = true;
  reading_.wait();
  reading_ = {};
  stop_ = false;
}

}  // namespace gptqb
