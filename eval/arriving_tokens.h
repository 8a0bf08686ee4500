// Tokens on their way from the device to the host, so that the next step may begin before they are
// there.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>

#include <deque>
#include <optional>

namespace gptqb {

class ArrivingTokens {
 public:
  // `ids` i64 as they are once the work that was queued so far is done; what is queued after this
  // may overwrite them.
  void send(const at::Tensor& ids);
  // Waits for those that were sent first and returns them, on the host. There must be some.
  at::Tensor take();
  size_t under_way() const { return sent_.size(); }

 private:
  struct Sent {
    at::Tensor ids;                   // on the host, not there yet
    std::optional<c10::Event> there;  // none: they are
  };
  std::deque<Sent> sent_;
};

}  // namespace gptqb
