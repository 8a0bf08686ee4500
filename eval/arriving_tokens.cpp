#include "eval/arriving_tokens.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace gptqb {

void ArrivingTokens::send(const at::Tensor& ids) {
  const at::Device device = ids.device();
  if (device.is_cpu()) {
    sent_.push_back({ids.clone(), std::nullopt});
    return;
  }
  Sent sent;
  sent.ids = at::empty(ids.sizes(), ids.options().device(at::kCPU).pinned_memory(true));
  sent.ids.copy_(ids, /*non_blocking=*/true);
  sent.there.emplace(device.type());
  sent.there->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  sent_.push_back(std::move(sent));
}

at::Tensor ArrivingTokens::take() {
  Sent first = std::move(sent_.front());
  sent_.pop_front();
  if (first.there) first.there->synchronize();
  return first.ids;
}

}  // namespace gptqb
