// Hidden states of many sequences at one point of a model.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace gptqb {

// Chunks [sequences, seqlen, features] that run through a block together. They wait for their turn
// on the model's device, or in pinned host memory where they do not fit beside the rest: a chunk
// then visits the device while it is worked on. Copies of a stream share chunks until one is set.
class Stream {
 public:
  Stream() = default;
  // `on_host` has no meaning on the CPU.
  Stream(at::Device device, bool on_host)
      : device_(device), on_host_(on_host && !device.is_cpu()) {}

  size_t size() const { return chunks_.size(); }
  // A chunk on the device.
  at::Tensor get(size_t i) const { return chunks_[i].to(device_, /*non_blocking=*/true); }
  // The same, given up by the stream.
  at::Tensor take(size_t i);
  // Undefined tensors are kept as they are: nothing reads them.
  void set(size_t i, const at::Tensor& chunk) { chunks_[i] = kept(chunk); }
  void add(const at::Tensor& chunk) { chunks_.push_back(kept(chunk)); }
  // All of them, wherever they wait.
  const std::vector<at::Tensor>& chunks() const { return chunks_; }

 private:
  at::Tensor kept(const at::Tensor& chunk) const;

  at::Device device_ = at::kCPU;
  bool on_host_ = false;
  std::vector<at::Tensor> chunks_;
};

}  // namespace gptqb
