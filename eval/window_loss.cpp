#include "eval/window_loss.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "common/error.h"

namespace gptqb {
namespace {

// Positions whose logits exist at the same time: 512 x 50k x 4 bytes is 100 MB.
constexpr int64_t kHeadRows = 512;

void check_windows(const CausalLm& model, const TokenWindows& windows) {
  const std::string where = "evaluation on " + windows.dataset;
  if (windows.count < 1 || windows.seqlen < 2)
    throw Error(where, "expected at least one window of two tokens, got " +
                           std::to_string(windows.count) + " of " + std::to_string(windows.seqlen));
  if (windows.seqlen > model.max_positions())
    throw Error(where, "expected seqlen of at most " + std::to_string(model.max_positions()) +
                           ", the positions the model has, got " + std::to_string(windows.seqlen) +
                           ". Set evaluate's seqlen");
  const auto [least, most] = std::minmax_element(windows.ids.begin(), windows.ids.end());
  if (*least < 0 || *most >= model.vocab_size())
    throw Error(where, "expected token ids from 0 to " + std::to_string(model.vocab_size() - 1) +
                           ", the model's vocabulary, got " +
                           std::to_string(*least < 0 ? *least : *most) +
                           ". The tokenizer is another model's");
}

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
  check_windows(model, windows);
  Progress& progress = options.progress ? *options.progress : silent_progress();
  const int64_t tokens = model.device().is_cuda() ? 8192 : 2048;
  const int64_t batch =
      std::min(windows.count,
               options.batch > 0 ? options.batch : std::max<int64_t>(1, tokens / windows.seqlen));

  const at::Tensor ids = at::from_blob(const_cast<int32_t*>(windows.ids.data()),
                                       {windows.count, windows.seqlen}, at::kInt)
                             .to(model.device(), at::kLong);
  progress.begin("blocks on " + windows.dataset, model.block_count() + 1);
  std::vector<at::Tensor> hidden;
  for (int64_t first = 0; first < windows.count; first += batch)
    hidden.push_back(model.embed(ids.narrow(0, first, std::min(batch, windows.count - first))));
  for (int64_t block = 0; block < model.block_count(); ++block) {
    model.load_block(block);
    for (at::Tensor& chunk : hidden) {
      throw_if_interrupted();
      chunk = model.run_block(chunk);
    }
    progress.advance();
  }
  model.release_block();

  std::vector<double> losses;
  for (at::Tensor& chunk : hidden) {
    throw_if_interrupted();
    for (int64_t i = 0; i < chunk.size(0); ++i)
      losses.push_back(window_loss(model, chunk[i], ids[static_cast<int64_t>(losses.size())],
                                   options.loss_in_model_dtype));
    chunk.reset();
  }
  progress.advance();
  return losses;
}

}  // namespace gptqb
