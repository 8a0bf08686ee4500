#include "methods/activation_stream.h"

#include <utility>

namespace gptqb {

at::Tensor Stream::take(size_t i) {
  const at::Tensor waiting = std::exchange(chunks_[i], at::Tensor());
  return waiting.to(device_, /*non_blocking=*/true);
}

// Copies to and from the host are queued behind the work on the device, so that nobody waits for
// them; pinned memory is what makes that possible.
at::Tensor Stream::kept(const at::Tensor& chunk) const {
  if (!on_host_ || !chunk.defined()) return chunk;
  at::Tensor host = at::empty(chunk.sizes(), chunk.options().device(at::kCPU).pinned_memory(true));
  return host.copy_(chunk, /*non_blocking=*/true);
}

}  // namespace gptqb
