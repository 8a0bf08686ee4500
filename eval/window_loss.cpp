#include "eval/window_loss.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace gptqb {
namespace {

// Logits, the same in f32, and their logarithms of probabilities.
constexpr int64_t kLogitCopies = 3;

// Mean over the predicted positions of one window's losses, f64 [] on the device: nobody waits for
// it here. `hidden` [seqlen, hidden], `ids` [seqlen] i64 on the device.
at::Tensor window_loss(CausalLm& model, const at::Tensor& hidden, const at::Tensor& ids,
                       bool in_model_dtype) {
  const int64_t predicted = ids.size(0) - 1;
  const int64_t step = head_rows(model, kLogitCopies);
  at::Tensor sum = at::zeros({}, ids.options().dtype(at::kDouble));
  for (int64_t start = 0; start < predicted; start += step) {
    const int64_t rows = std::min(step, predicted - start);
    at::Tensor logits = model.logits(hidden.narrow(0, start, rows));
    if (!in_model_dtype) logits = logits.to(at::kFloat);
    const at::Tensor targets = ids.narrow(0, start + 1, rows).unsqueeze(1);
    sum += at::log_softmax(logits, -1).gather(1, targets).sum(at::kDouble);
  }
  const at::Tensor mean = sum.div_(-static_cast<double>(predicted));
  return in_model_dtype ? mean.to(model.dtype()).to(at::kDouble) : mean;
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
  std::vector<at::Tensor> means;
  for (at::Tensor& chunk : states) {
    throw_if_interrupted();
    const at::Tensor hidden = chunk.to(model.device());
    chunk.reset();
    for (int64_t i = 0; i < hidden.size(0); ++i)
      means.push_back(window_loss(model, hidden[i], ids[static_cast<int64_t>(means.size())],
                                  options.loss_in_model_dtype));
  }
  const at::Tensor losses = at::stack(means).cpu();
  return {losses.const_data_ptr<double>(), losses.const_data_ptr<double>() + losses.numel()};
}

}  // namespace gptqb
