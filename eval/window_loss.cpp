#include "eval/window_loss.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace gptqb {
namespace {

// Positions whose logits exist at the same time: 512 x 50k x 4 bytes is 100 MB.
constexpr int64_t kHeadRows = 512;

// Sum over the predicted positions of one window's losses. `hidden` [seqlen, hidden], `ids`
// [seqlen] i64 on the device.
double window_loss(CausalLm& model, const at::Tensor& hidden, const at::Tensor& ids,
                   bool in_model_dtype) {
  const int64_t predicted = ids.size(0) - 1;
  at::Tensor sum = at::zeros({}, ids.options().dtype(at::kDouble));
  for (int64_t start = 0; start < predicted; start += kHeadRows) {
    const int64_t rows = std::min(kHeadRows, predicted - start);
    at::Tensor logits = model.logits(hidden.narrow(0, start, rows));
    if (!in_model_dtype) logits = logits.to(at::kFloat);
    const at::Tensor targets = ids.narrow(0, start + 1, rows).unsqueeze(1);
    sum += at::log_softmax(logits, -1).gather(1, targets).sum(at::kDouble);
  }
  const double mean = -sum.item<double>() / static_cast<double>(predicted);
  if (!in_model_dtype) return mean;
  return at::scalar_tensor(mean, at::kDouble).to(model.dtype()).item<double>();
}

}  // namespace

std::vector<double> window_losses(CausalLm& model, const TokenWindows& windows,
                                  const WindowLossOptions& options) {
  c10::InferenceMode inference;
  Progress& progress = options.progress ? *options.progress : silent_progress();
  WindowStates states = options.states
                            ? options.states->get(model, windows, options.batch, progress)
                            : final_hidden_states(model, windows, options.batch, progress);
  const at::Tensor ids = window_ids(windows, model.device());
  std::vector<double> losses;
  for (at::Tensor& chunk : states) {
    throw_if_interrupted();
    const at::Tensor hidden = chunk.to(model.device());
    chunk.reset();
    for (int64_t i = 0; i < hidden.size(0); ++i)
      losses.push_back(window_loss(model, hidden[i], ids[static_cast<int64_t>(losses.size())],
                                   options.loss_in_model_dtype));
  }
  return losses;
}

}  // namespace gptqb
