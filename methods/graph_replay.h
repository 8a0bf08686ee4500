// Work whose GPU kernels are started together.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <vector>

namespace gptqb {

// A pass over one window of a small model is over sooner than its kernels are launched one by one.
// Recorded as a CUDA graph they start with one call; they are the same kernels with the same
// arguments, so the results are the same to the bit.
class GraphReplay {
 public:
  using Work = std::function<std::vector<at::Tensor>(const at::Tensor&)>;

  GraphReplay();
  ~GraphReplay();

  // Whether this build records work on `device`.
  static bool available(at::Device device);

  // Runs `work` on `example` (on a GPU) to warm up and once more to record it; what was recorded
  // before is dropped. `work` must not wait for the device, and what it reads beside its input must
  // stay where it is. `undo`, if there is one, is called in between and takes back what the warm-up
  // changed.
  void record(const Work& work, const at::Tensor& example,
              const std::function<void()>& undo = nullptr);
  bool recorded() const { return recording_ != nullptr; }

  // What `work` makes of `input`, which has the example's shape and dtype. The next call overwrites
  // the results. `input` may be a result that is the input `work` was recorded with: it is then
  // used as it is.
  const std::vector<at::Tensor>& run(const at::Tensor& input);

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

}  // namespace gptqb
