// The loss of token windows under a model: the one quantity perplexity, paired differences and
// verdicts rest on.
#pragma once

#include <vector>

#include "common/progress.h"
#include "datasets/windows.h"
#include "models/causal_lm.h"

namespace gptqb {

struct WindowLossOptions {
  int64_t batch = 0;  // windows that run together; 0: about 8192 tokens on a GPU, 2048 on a CPU
  bool loss_in_model_dtype =
      false;  // round each token's loss and the window's mean to the logits' dtype
  Progress* progress = nullptr;
};

// Mean cross-entropy in nats over the seqlen - 1 predicted tokens of each window (protocol.md
// section 3: the first token of a window is never scored, every window starts at position 0).
// Blocks run one after another over all windows, so one block is on the device at a time. Logits
// are in the model's dtype, losses in f32, means in f64. Throws Error naming the dataset if seqlen
// exceeds the model's positions or an id its vocabulary.
std::vector<double> window_losses(CausalLm& model, const TokenWindows& windows,
                                  const WindowLossOptions& options);

}  // namespace gptqb
