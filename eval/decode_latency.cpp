#include "eval/decode_latency.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>

#include "common/error.h"
#include "common/seconds_since.h"
#include "common/statistics.h"
#include "eval/arriving_tokens.h"
#include "models/decode_ops.h"

namespace gptqb {
namespace {

constexpr const char* kWhere = "decode latency";

using Clock = std::chrono::steady_clock;

void check_task(const DecodeTask& task, const at::Tensor& ids) {
  if (task.prompt < 0)
    throw Error(kWhere,
                "expected a prompt of 0 tokens or more, got " + std::to_string(task.prompt));
  if (task.generate < 2)
    throw Error(kWhere, "expected 2 generated tokens or more, got " +
                            std::to_string(task.generate) + ". The first has no step of its own");
  if (task.warmup < 0)
    throw Error(kWhere, "expected 0 warm-up steps or more, got " + std::to_string(task.warmup));
  if (task.repeats < 1)
    throw Error(kWhere, "expected 1 pass or more, got " + std::to_string(task.repeats));
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

// Names of kernels that ran since `before` was taken.
std::set<std::string> kernels_since(const std::map<std::string, int64_t>& before,
                                    const CausalLm& model) {
  std::set<std::string> names;
  for (const auto& [kernel, products] : model.kernels_run()) {
    const auto known = before.find(kernel);
    if (known == before.end() || known->second != products) names.insert(kernel);
  }
  return names;
}

// One pass through a prompt and steps, timed.
class Pass {
 public:
  Pass(CausalLm& model, DecodeSession& session, const at::Tensor& ids, const DecodeTask& task)
      : model_(model),
        session_(session),
        host_ids_(ids),
        ids_(ids.to(model.device())),
        task_(task) {}

  // Makes `generate` tokens on an empty cache.
  void run(int64_t generate) {
    session_.clear();
    step_seconds.clear();
    reach = 0;
    int64_t made = 0;
    if (task_.prompt > 0) {
      const auto start = Clock::now();
      written_ = largest_places(session_.prefill(host_ids_.narrow(1, 0, task_.prompt)));
      written_.cpu();
      first_seconds = seconds_since(start);
      made = 1;
    }
    const std::map<std::string, int64_t> before = model_.kernels_run();
    // The next step is queued before the tokens of the one before are awaited: the device never
    // waits for the host.
    ArrivingTokens arriving;
    auto before_it = Clock::now();
    const auto arrive = [&] {
      arriving.take();
      const auto now = Clock::now();
      step_seconds.push_back(std::chrono::duration<double>(now - before_it).count());
      before_it = now;
    };
    for (; made < generate; ++made) {
      throw_if_interrupted();
      written_ = session_.greedy_step(next(made));
      arriving.send(written_);
      reach += static_cast<double>(session_.cache().reach());
      if (arriving.under_way() > 1) arrive();
    }
    while (arriving.under_way() > 0) arrive();
    kernels.merge(kernels_since(before, model_));
    if (task_.prompt == 0) first_seconds = step_seconds.front();
    if (!step_seconds.empty()) reach /= static_cast<double>(step_seconds.size());
  }

  double first_seconds = 0;
  std::vector<double> step_seconds;
  double reach = 0;  // mean over steps
  // Of the steps of all passes: where steps are recorded once and then repeated, only the first
  // ones tell.
  std::set<std::string> kernels;

 private:
  // What is fed to make token `made`, on the device.
  at::Tensor next(int64_t made) const {
    if (task_.teacher_forced || (task_.prompt == 0 && made == 0))
      return ids_.narrow(1, task_.prompt > 0 ? task_.prompt + made - 1 : made, 1);
    return written_;
  }

  CausalLm& model_;
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

int64_t plain_read_size(const CausalLm& model) {
  constexpr int64_t kLarge = int64_t{1} << 30, kSmall = int64_t{1} << 27;
  return model.parameter_count() * model.sizes().element_bytes >= kSmall ? kLarge : kSmall;
}

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

double step_growth(const CausalLm& model, const StepBytes& step, int64_t blocks, bool from_codes) {
  const ModelSizes sizes = model.sizes();
  double in_blocks = 0;
  for (const int64_t elements : sizes.block_tensors) in_blocks += static_cast<double>(elements);
  in_blocks *= static_cast<double>(sizes.blocks * sizes.element_bytes);
  if (from_codes) {
    const PackedShare share = model.packed_share();
    in_blocks += static_cast<double>(share.bits) / 8 -
                 static_cast<double>(share.weights * sizes.element_bytes);
  }
  const double more = static_cast<double>(blocks) / static_cast<double>(sizes.blocks) - 1;
  return 1 + more * (in_blocks + step.cache) / step.total();
}

CheckPlan check_plan(const CausalLm& model, const DecodeTask& task, int64_t batch) {
  constexpr int64_t kSteps = 8, kRows = 4;
  CheckPlan plan;
  plan.rows = std::min(batch, kRows);
  if (task.check != DecodeTask::kCheckAuto) {
    plan.steps = std::min(task.check, task.generate);
    if (plan.steps == 0) plan.reason = "check: 0 asks for no comparison";
    return plan;
  }
  // A few seconds of a slow CPU, or of a GPU that multiplies small matrices.
  const double budget = model.device().is_cuda() ? 1e15 : 2e11;
  const auto cost = [&](int64_t rows, int64_t steps) {
    const auto tokens = static_cast<double>(std::max<int64_t>(task.prompt, 1) + steps);
    return 2.0 * static_cast<double>(model.parameter_count()) * static_cast<double>(rows * steps) *
           tokens;
  };
  plan.steps = std::min(kSteps, task.generate);
  if (cost(plan.rows, plan.steps) > budget) plan.rows = 1;
  while (plan.steps > 0 && cost(1, plan.steps) > budget) --plan.steps;
  if (plan.steps == 0)
    plan.reason =
        "the model is too large to be recomputed on this device in seconds; check: N asks "
        "for N steps all the same";
  return plan;
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

  // First, for where steps are recorded, only the first one tells which kernels ran.
  const std::map<std::string, int64_t> before = model.kernels_run();
  Pass pass(model, session, ids, task);
  if (task.warmup > 0) pass.run(std::min(task.generate, task.warmup + (task.prompt > 0 ? 1 : 0)));
  const CheckPlan plan = check_plan(model, task, result.batch);
  result.check.reason = plan.reason;
  if (plan.steps > 0)
    result.check = check_decode(model, session, ids.narrow(1, 0, std::max<int64_t>(task.prompt, 1)),
                                plan.steps, plan.rows);

  std::vector<double> first_seconds;
  for (int64_t repeat = 0; repeat < task.repeats; ++repeat) {
    pass.run(task.generate);
    first_seconds.push_back(pass.first_seconds);
    result.step_seconds.insert(result.step_seconds.end(), pass.step_seconds.begin(),
                               pass.step_seconds.end());
  }
  result.first_seconds = quantile(first_seconds, 0.5);
  result.median = quantile(result.step_seconds, 0.5);
  result.p10 = quantile(result.step_seconds, 0.1);
  result.p90 = quantile(result.step_seconds, 0.9);
  result.tokens_per_second = static_cast<double>(result.batch) / result.median;
  result.step_bytes = step_bytes(model, result.batch, pass.reach, task.from_codes);
  if (read_rate > 0) result.bandwidth_share = result.step_bytes.total() / result.median / read_rate;
  if (pass.kernels.empty()) pass.kernels = kernels_since(before, model);
  result.kernels = {pass.kernels.begin(), pass.kernels.end()};
  return result;
}

DecodeCheck check_decode(CausalLm& model, DecodeSession& session, const at::Tensor& ids,
                         int64_t steps, int64_t rows) {
  c10::InferenceMode inference;
  session.clear();
  const int64_t batch = ids.size(0);
  const int64_t compared = rows > 0 ? std::min(rows, batch) : batch;
  DecodeCheck check;
  check.steps = steps;
  at::Tensor text = ids;
  at::Tensor cached = session.prefill(ids);
  for (int64_t step = 0; step < steps; ++step) {
    throw_if_interrupted();
    const at::Tensor got = cached.to(at::kCPU, at::kDouble);
    require_finite(got, "with the cache");
    at::Tensor next = got.argmax(-1, /*keepdim=*/true);
    for (int64_t i = 0; i < compared; ++i) {
      // One at a time, so that the check takes little memory beside the model.
      const int64_t row = i * batch / compared;
      const at::Tensor wanted =
          recompute(model, text.narrow(0, row, 1))[0].to(at::kCPU, at::kDouble);
      require_finite(wanted, "without a cache");
      const double largest = std::max(1.0, wanted.abs().max().item<double>());
      const double allowed = rounding_of(model.dtype()) * largest;
      check.largest_difference = std::max(check.largest_difference,
                                          (got[row] - wanted).abs().max().item<double>() / largest);
      const at::Tensor best = std::get<0>(wanted.topk(2, -1));
      const double gap = (best[0] - best[1]).item<double>();
      const auto expected = wanted.argmax().item<int64_t>();
      const auto written = next[row].item<int64_t>();
      ++check.tokens;
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
      next[row][0] = expected;
    }
    text = at::cat({text, next}, 1);
    if (step + 1 < steps) cached = session.step(next);
  }
  return check;
}

}  // namespace gptqb
