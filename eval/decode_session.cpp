#include "eval/decode_session.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <string>

#include "common/error.h"
#include "common/progress.h"

namespace gptqb {
namespace {

void check_rows(const at::Tensor& ids, int64_t batch) {
  if (ids.dim() == 2 && ids.size(0) == batch && ids.size(1) > 0) return;
  std::string sizes;
  for (const int64_t size : ids.sizes())
    sizes += (sizes.empty() ? "" : " x ") + std::to_string(size);
  throw Error("generation",
              "expected ids [" + std::to_string(batch) + ", one or more], got [" + sizes + "]");
}

}  // namespace

DecodeSession::DecodeSession(CausalLm& model, const DecodeOptions& options)
    : model_(model),
      chunk_(std::max<int64_t>(1, options.chunk)),
      cache_(model.cache_shape(options.batch, options.positions), model.dtype(), model.device()) {
  c10::InferenceMode inference;
  model.hold_blocks();
}

at::Tensor DecodeSession::last_logits(const at::Tensor& hidden) {
  return model_.logits(hidden.narrow(1, hidden.size(1) - 1, 1)).squeeze(1);
}

at::Tensor DecodeSession::prefill(const at::Tensor& ids) {
  c10::InferenceMode inference;
  check_rows(ids, cache_.shape().batch);
  at::Tensor hidden;
  for (int64_t first = 0; first < ids.size(1); first += chunk_) {
    throw_if_interrupted();
    hidden = model_.run_cached(ids.narrow(1, first, std::min(chunk_, ids.size(1) - first)), cache_);
  }
  return last_logits(hidden);
}

at::Tensor DecodeSession::step(const at::Tensor& ids) {
  c10::InferenceMode inference;
  check_rows(ids, cache_.shape().batch);
  return last_logits(model_.run_cached(ids, cache_));
}

}  // namespace gptqb
