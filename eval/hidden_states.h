// Token windows through all blocks of a model, and what came out, kept for whoever asks again.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/progress.h"
#include "datasets/windows.h"
#include "models/causal_lm.h"

namespace gptqb {

// Hidden states of all windows of a dataset, in chunks [windows, seqlen, hidden] in window order.
using WindowStates = std::vector<at::Tensor>;

// i64 [count, seqlen] on `device`.
at::Tensor window_ids(const TokenWindows& windows, at::Device device);

// Positions whose logits exist at the same time, `copies` f32 tensors of them: what fits 2 GiB of a
// GPU or 256 MiB of a host.
int64_t head_rows(const CausalLm& model, int64_t copies);

// What leaves the last block, in the model's dtype on its device. Blocks run one after another over
// all windows, so one block is on the device at a time. `batch` windows run together; 0: as
// sequences_per_pass chooses. Throws Error naming the dataset if there is no window of two
// tokens, if seqlen exceeds the model's positions or an id its vocabulary.
WindowStates final_hidden_states(CausalLm& model, const TokenWindows& windows, int64_t batch,
                                 Progress& progress);

// Remembers final_hidden_states of one model on the host, so that evaluators (and, for the dense
// model, cells) that see the same windows share one pass.
class HiddenStateCache {
 public:
  // What would take more than `kept_bytes` in all is computed each time instead.
  explicit HiddenStateCache(int64_t kept_bytes) : free_bytes_(kept_bytes) {}

  // As final_hidden_states, but the chunks are on the host if they were kept.
  WindowStates get(CausalLm& model, const TokenWindows& windows, int64_t batch, Progress& progress);

 private:
  int64_t free_bytes_;
  std::map<std::string, WindowStates> kept_;
};

}  // namespace gptqb
