#include "eval/decode_latency.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "common/error.h"
#include "common/statistics.h"

namespace gptqb {
namespace {

constexpr const char* kWhere = "decode latency";

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void check_task(const DecodeTask& task, const at::Tensor& ids) {
  if (task.prompt < 0)
    throw Error(kWhere,
                "expected a prompt of 0 tokens or more, got " + std::to_string(task.prompt));
  if (task.generate < 2)
    throw Error(kWhere, "expected 2 generated tokens or more, got " +
                            std::to_string(task.generate) + ". The first has no step of its own");
  if (task.warmup < 0)
    throw Error(kWhere, "expected 0 warm-up steps or more, got " + std::to_string(task.warmup));
  if (ids.dim() == 2 && ids.size(0) > 0 && ids.size(1) == task.given()) return;
  std::string sizes;
  for (const int64_t size : ids.sizes())
    sizes += (sizes.empty() ? "" : " x ") + std::to_string(size);
  throw Error(kWhere, "expected ids [one or more, " + std::to_string(task.given()) + "], got [" +
                          sizes + "]");
}

// The share of the largest logit by which another order of sums may move a logit.
double rounding_of(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-5 : dtype == at::kHalf ? 6e-3 : 3e-2;
}

// One pass through a prompt and steps, timed.
class Pass {
 public:
  Pass(DecodeSession& session, const at::Tensor& ids, const DecodeTask& task, at::Device device)
      : session_(session), host_ids_(ids), ids_(ids.to(device)), task_(task) {}

  // Makes `generate` tokens on an empty cache.
  void run(int64_t generate) {
    session_.clear();
    step_seconds.clear();
    reach = 0;
    int64_t made = 0;
    if (task_.prompt > 0) {
      const auto start = Clock::now();
      take(session_.prefill(host_ids_.narrow(1, 0, task_.prompt)));
      first_seconds = seconds_since(start);
      made = 1;
    }
    for (; made < generate; ++made) {
      throw_if_interrupted();
      const at::Tensor fed = next(made);
      const auto start = Clock::now();
      take(session_.step(fed));
      step_seconds.push_back(seconds_since(start));
      reach += static_cast<double>(session_.cache().reach());
    }
    if (task_.prompt == 0) first_seconds = step_seconds.front();
    if (!step_seconds.empty()) reach /= static_cast<double>(step_seconds.size());
  }

  double first_seconds = 0;
  std::vector<double> step_seconds;
  double reach = 0;  // mean over steps

 private:
  // Reading the tokens is what waits for the device.
  void take(const at::Tensor& logits) {
    written_ = logits.argmax(-1, /*keepdim=*/true);
    written_.cpu();
  }

  // What is fed to make token `made`, on the device.
  at::Tensor next(int64_t made) const {
    if (task_.teacher_forced || (task_.prompt == 0 && made == 0))
      return ids_.narrow(1, task_.prompt > 0 ? task_.prompt + made - 1 : made, 1);
    return written_;
  }

  DecodeSession& session_;
  at::Tensor host_ids_;
  at::Tensor ids_;
  const DecodeTask& task_;
  at::Tensor written_;
};

// Logits [batch, vocab] behind the last of `ids`, by the forward pass that perplexity uses.
at::Tensor recompute(CausalLm& model, const at::Tensor& ids) {
  at::Tensor hidden = model.embed(ids);
  for (int64_t block = 0; block < model.block_count(); ++block) {
    model.load_block(block);
    hidden = model.run_block(hidden);
  }
  model.release_block();
  return model.logits(hidden.narrow(1, hidden.size(1) - 1, 1)).squeeze(1);
}

void require_finite(const at::Tensor& logits, const char* which) {
  if (!at::isfinite(logits).all().item<bool>())
    throw Error(kWhere, std::string("expected finite logits, got others ") + which);
}

}  // namespace

StepBytes step_bytes(const CausalLm& model, int64_t batch, double reach, bool from_codes) {
  const auto element = static_cast<double>(model.sizes().element_bytes);
  const ModelExtras ends = model.extras();
  StepBytes bytes;
  bytes.weights = static_cast<double>(model.parameter_count()) * element;
  if (!ends.tied_head) {
    double embedding = 1;
    for (const int64_t size : ends.embedding_shape) embedding *= static_cast<double>(size);
    bytes.weights -= embedding * element;
  }
  if (from_codes) {
    const PackedShare share = model.packed_share();
    bytes.weights +=
        static_cast<double>(share.bits) / 8 - static_cast<double>(share.weights) * element;
  }
  bytes.cache = static_cast<double>(model.cached_per_token() * batch) * reach * element;
  return bytes;
}

DecodeLatency measure_decode(CausalLm& model, const at::Tensor& ids, const DecodeTask& task,
                             double read_rate) {
  c10::InferenceMode inference;
  check_task(task, ids);
  const DecodeOptions options{.batch = ids.size(0), .positions = task.positions()};
  DecodeLatency result;
  result.batch = options.batch;
  result.memory = generation_memory(model, options, task.from_codes);
  DecodeSession session(model, options);
  result.memory.cache = session.cache().bytes();

  Pass pass(session, ids, task, model.device());
  if (task.warmup > 0) pass.run(std::min(task.generate, task.warmup + (task.prompt > 0 ? 1 : 0)));
  pass.run(task.generate);
  result.first_seconds = pass.first_seconds;
  result.step_seconds = std::move(pass.step_seconds);
  result.median = quantile(result.step_seconds, 0.5);
  result.p10 = quantile(result.step_seconds, 0.1);
  result.p90 = quantile(result.step_seconds, 0.9);
  result.tokens_per_second = static_cast<double>(result.batch) / result.median;
  result.step_bytes = step_bytes(model, result.batch, pass.reach, task.from_codes);
  if (read_rate > 0) result.bandwidth_share = result.step_bytes.total() / result.median / read_rate;
  return result;
}

DecodeCheck check_decode(CausalLm& model, DecodeSession& session, const at::Tensor& ids,
                         int64_t steps) {
  c10::InferenceMode inference;
  session.clear();
  DecodeCheck check;
  at::Tensor text = ids;
  at::Tensor cached = session.prefill(ids);
  for (int64_t step = 0; step < steps; ++step) {
    throw_if_interrupted();
    const at::Tensor got = cached.to(at::kCPU, at::kDouble);
    const at::Tensor wanted = recompute(model, text).to(at::kCPU, at::kDouble);
    require_finite(got, "with the cache");
    require_finite(wanted, "without a cache");
    const double largest = std::max(1.0, wanted.abs().max().item<double>());
    const double allowed = rounding_of(model.dtype()) * largest;
    check.largest_difference =
        std::max(check.largest_difference, (got - wanted).abs().max().item<double>() / largest);
    const at::Tensor next = wanted.argmax(-1, /*keepdim=*/true);
    const at::Tensor best = std::get<0>(wanted.topk(2, -1));
    for (int64_t row = 0; row < got.size(0); ++row) {
      ++check.tokens;
      const auto expected = next[row].item<int64_t>();
      const auto written = got[row].argmax().item<int64_t>();
      const double gap = (best[row][0] - best[row][1]).item<double>();
      if (gap <= 2 * allowed) {
        ++check.undecided;
      } else if (written != expected) {
        throw Error(kWhere, "expected token " + std::to_string(expected) + " at step " +
                                std::to_string(step) + " of sequence " + std::to_string(row) +
                                ", as recomputed without a cache, got " + std::to_string(written) +
                                " with it. Its two best logits are " + std::to_string(gap) +
                                " apart, where rounding may move each by " +
                                std::to_string(allowed) +
                                ": times of a wrong result mean nothing. Please report it");
      }
    }
    text = at::cat({text, next}, 1);
    if (step + 1 < steps) cached = session.step(next);
  }
  return check;
}

}  // namespace gptqb
