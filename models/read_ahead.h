// The tensors of the next block, brought to the host while the present one is computed.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <vector>

namespace gptqb {

// One block at a time, in a thread of its own.
class ReadAhead {
 public:
  using Tensors = std::map<std::string, at::Tensor>;  // by full name
  // One tensor, on the host. Called in the thread; must not change what others read.
  using Load = std::function<at::Tensor(const std::string& name)>;

  ~ReadAhead() { drop(); }

  // Starts on the tensors `names` of `block`. What was read and not taken is dropped.
  void start(int64_t block, std::vector<std::string> names, Load load);
  // The tensors of `block`, once all are there; empty if it is not the one that was started. Throws
  // what `load` threw.
  Tensors take(int64_t block);
  void drop();

  // Of the thread, for what was taken.
  double busy_seconds() const { return busy_seconds_; }

 private:
  struct Read {
    Tensors tensors;
    double seconds = 0;
  };

  int64_t block_ = -1;
  std::atomic<bool> stop_ = false;
  std::future<Read> reading_;
  double busy_seconds_ = 0;
};

}  // namespace gptqb
