// The weights of the next block, brought to the host while the present one is computed.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "methods/packed_linear.h"

namespace gptqb {

// One block at a time, in a thread of its own.
class ReadAhead {
 public:
  // A tensor, or the codes of a linear that is computed from them.
  using Weight = std::variant<at::Tensor, PackedLinear>;
  using Weights = std::map<std::string, Weight>;  // by full name
  // One weight, on the host. Called in the thread; must not change what others read.
  using Load = std::function<Weight(const std::string& name)>;

  ~ReadAhead() { drop(); }

  // Starts on the weights `names` of `block`. What was read and not taken is dropped.
  void start(int64_t block, std::vector<std::string> names, Load load);
  // The weights of `block`, once all are there; empty if it is not the one that was started. Throws
  // what `load` threw.
  Weights take(int64_t block);
  void drop();

  // Of the thread, for what was taken.
  double busy_seconds() const { return busy_seconds_; }

 private:
  struct Read {
    Weights weights;
    double seconds = 0;
  };

  int64_t block_ = -1;
  std::atomic<bool> stop_ = false;
  std::future<Read> reading_;
  double busy_seconds_ = 0;
};

}  // namespace gptqb
