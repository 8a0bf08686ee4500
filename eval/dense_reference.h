// The dense model that a quantized one is held against.
#pragma once

#include <functional>
#include <memory>

#include "eval/hidden_states.h"
#include "models/causal_lm.h"

namespace gptqb {

// The same checkpoint as the evaluated model, untouched, opened when first asked for. It also runs
// block by block. Its hidden states outlive close(), so that all cells of a run share one pass.
class DenseReference {
 public:
  using Opener = std::function<std::unique_ptr<CausalLm>()>;

  // `kept_bytes`: of hidden states on the host, see HiddenStateCache.
  DenseReference(Opener open, int64_t kept_bytes) : open_(std::move(open)), states_(kept_bytes) {}

  CausalLm& model() {
    if (!model_) model_ = open_();
    return *model_;
  }

  // final_hidden_states of the dense model, on its device or on the host.
  WindowStates hidden_states(const TokenWindows& windows, int64_t batch, Progress& progress) {
    return states_.get(model(), windows, batch, progress);
  }

  // Gives the model's memory back until it is asked for again.
  void close() { model_.reset(); }

 private:
  Opener open_;
  std::unique_ptr<CausalLm> model_;
  HiddenStateCache states_;
};

}  // namespace gptqb
