// The loss of token windows under a model: the one quantity perplexity, paired differences and
// verdicts rest on.
#pragma once

#include <vector>

#include "common/progress.h"
#include "datasets/windows.h"
#include "eval/hidden_states.h"
#include "models/causal_lm.h"

namespace gptqb {

struct WindowLossOptions {
  int64_t batch = 0;  // windows that run together; 0: as final_hidden_states chooses
  bool loss_in_model_dtype =
      false;  // round each token's loss and the window's mean to the logits' dtype
  HiddenStateCache* states = nullptr;  // of `model`; null: the pass is not shared
  Progress* progress = nullptr;
};

// Mean cross-entropy in nats over the seqlen - 1 predicted tokens of each window (protocol.md
// section 3: the first token of a window is never scored, every window starts at position 0).
// Logits are in the model's dtype, losses in f32, means in f64. Throws Error as
// final_hidden_states.
std::vector<double> window_losses(CausalLm& model, const TokenWindows& windows,
                                  const WindowLossOptions& options);

}  // namespace gptqb
