#include "eval/decode_session.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <string>

#include "common/error.h"
#include "common/progress.h"
#include "models/decode_ops.h"

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
      cache_(model.cache_shape(options.batch, options.positions), model.dtype(), model.device()),
      graphs_(options.graphs) {
  c10::InferenceMode inference;
  model.hold_blocks();
  graphs_ = options.graphs && GraphReplay::available(model.device()) && model.records_steps();
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

DecodeSession::Step DecodeSession::run_step(const at::Tensor& ids) {
  Step step;
  step.logits = last_logits(model_.run_cached(ids, cache_));
  step.best = largest_places(step.logits);
  return step;
}

// The first step of a reach runs once to warm up, is taken back, recorded and replayed.
DecodeSession::Step DecodeSession::replayed_step(const at::Tensor& ids) {
  const at::Tensor placed = model_.placed_ids(ids);
  GraphReplay& recording = recordings_[KvCache::reach_of(cache_.length() + 1)];
  if (!recording.recorded()) {
    recording.record(
        [&](const at::Tensor& next) {
          const Step step = run_step(next);
          // What is fed next without being told.
          return std::vector{step.logits, next.copy_(step.best)};
        },
        placed, [&] { cache_.take_back(1); });
    cache_.count_replayed(-1);
  }
  cache_.count_replayed(1);
  const std::vector<at::Tensor>& results = recording.run(placed);
  return {results[0], results[1]};
}

at::Tensor DecodeSession::step(const at::Tensor& ids) {
  c10::InferenceMode inference;
  check_rows(ids, cache_.shape().batch);
  if (!graphs_ || ids.size(1) != 1) return last_logits(model_.run_cached(ids, cache_));
  return replayed_step(ids).logits;
}

at::Tensor DecodeSession::greedy_step(const at::Tensor& ids) {
  c10::InferenceMode inference;
  check_rows(ids, cache_.shape().batch);
  return (graphs_ && ids.size(1) == 1 ? replayed_step(ids) : run_step(ids)).best;
}

}  // namespace gptqb
