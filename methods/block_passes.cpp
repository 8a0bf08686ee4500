#include "methods/block_passes.h"

#include <algorithm>
#include <utility>

#include "common/progress.h"

namespace gptqb {
namespace {

// Windows that wait to be added to the published sums.
constexpr int64_t kWindowsAtOnce = 16;
constexpr int64_t kWaitingBytes = int64_t{1} << 26;
// Recording a pass costs as much as running it a few times.
constexpr size_t kWindowsToRecord = 16;

}  // namespace

Stream BlockPasses::embed(const at::Tensor& ids) {
  clock_.enter("forward");
  Stream stream = empty_stream();
  const int64_t step = std::max<int64_t>(options_.sequences_per_chunk, 1);
  for (int64_t begin = 0; begin < ids.size(0); begin += step) {
    throw_if_interrupted();
    stream.add(model_.embed(ids.narrow(0, begin, std::min(step, ids.size(0) - begin))));
  }
  return stream;
}

bool BlockPasses::worth_recording(const Stream& stream) const {
  if (stream.size() < kWindowsToRecord || !GraphReplay::available(model_.device()) ||
      !model_.recordable())
    return false;
  for (const auto& chunk : stream.chunks())
    if (chunk.size(0) != 1 || chunk.sizes() != stream.chunks().front().sizes()) return false;
  return true;
}

void BlockPasses::run(Stream& stream) {
  clock_.enter("forward");
  const bool recorded = worth_recording(stream);
  if (recorded)
    replay_.record([&](const at::Tensor& hidden) { return std::vector{model_.run_block(hidden)}; },
                   stream.get(0));
  for (size_t i = 0; i < stream.size(); ++i) {
    throw_if_interrupted();
    stream.set(
        i, recorded ? replay_.run(stream.get(i)).front().clone() : model_.run_block(stream.get(i)));
  }
}

Stream BlockPasses::outputs(const Stream& stream) {
  Stream copy = stream;
  run(copy);
  return copy;
}

Stream BlockPasses::collect_all(const BlockPlan& plan, const Stream& stream, StatsMember member,
                                bool to_the_end, std::vector<StageData>& data) {
  clock_.enter("forward");
  const size_t needed = stages_with_work(plan);
  // Hands on what statistics want of one chunk; returns what leaves the block.
  const auto pass = [&](const at::Tensor& hidden, const auto& take) {
    auto activations = model_.begin(hidden);
    for (size_t stage = 0; stage < plan.size(); ++stage) {
      if (has_work(plan[stage])) take(stage, activations.input);
      if (!to_the_end && stage + 1 >= needed) break;
      model_.run_stage(stage, activations);
    }
    return activations.residual;
  };
  const auto take = [&](size_t stage, const at::Tensor& input) { add(input, member, data[stage]); };

  std::vector<size_t> taken;  // stages, in the order in which a recorded pass puts their inputs out
  const bool recorded = worth_recording(stream);
  if (recorded)
    replay_.record(
        [&](const at::Tensor& hidden) {
          taken.clear();
          std::vector<at::Tensor> inputs;
          const at::Tensor output = pass(hidden, [&](size_t stage, const at::Tensor& input) {
            taken.push_back(stage);
            inputs.push_back(input);
          });
          inputs.push_back(output);
          return inputs;
        },
        stream.get(0));

  Stream outputs = empty_stream();
  for (size_t i = 0; i < stream.size(); ++i) {
    throw_if_interrupted();
    if (!recorded) {
      const at::Tensor output = pass(stream.get(i), take);
      if (to_the_end) outputs.add(output);
      continue;
    }
    const auto& results = replay_.run(stream.get(i));
    for (size_t k = 0; k < taken.size(); ++k) take(taken[k], results[k].clone());
    if (to_the_end) outputs.add(results.back().clone());
  }
  for (StageData& stage : data) add_waiting(member, stage);
  return outputs;
}

KeptActivations BlockPasses::begin(Stream stream) {
  clock_.enter("forward");
  KeptActivations kept{empty_stream(), empty_stream()};
  for (size_t i = 0; i < stream.size(); ++i) {
    const auto activations = model_.begin(stream.take(i));
    kept.residual.add(activations.residual);
    kept.input.add(activations.input);
  }
  return kept;
}

void BlockPasses::collect(const KeptActivations& activations, StatsMember member, StageData& data) {
  for (size_t i = 0; i < activations.input.size(); ++i) {
    throw_if_interrupted();
    add(activations.input.get(i), member, data);
  }
  add_waiting(member, data);
}

void BlockPasses::run_stage(size_t stage, KeptActivations& kept) {
  clock_.enter("forward");
  for (size_t i = 0; i < kept.residual.size(); ++i) {
    throw_if_interrupted();
    BlockActivations activations{kept.residual.take(i), kept.input.take(i)};
    model_.run_stage(stage, activations);
    kept.residual.set(i, activations.residual);
    kept.input.set(i, activations.input);
  }
}

void BlockPasses::add(const at::Tensor& input, StatsMember member, StageData& data) {
  data.waiting.push_back(input);
  const bool single = options_.method.solver == SolverKind::kReference && input.size(0) == 1;
  const auto waiting = static_cast<int64_t>(data.waiting.size());
  if (!single || waiting == kWindowsAtOnce ||
      waiting * static_cast<int64_t>(input.nbytes()) >= kWaitingBytes)
    add_waiting(member, data);
}

void BlockPasses::add_waiting(StatsMember member, StageData& data) {
  if (data.waiting.empty()) return;
  clock_.enter("hessian");
  const double before = clock_.total();
  const auto input = data.waiting.size() == 1 ? data.waiting.front() : at::cat(data.waiting);
  data.waiting.clear();
  const auto accumulation = options_.method.solver == SolverKind::kReference
                                ? Accumulation::kPublished
                                : Accumulation::kSum;
  auto& stats = data.*member;
  if (!stats)
    stats = std::make_unique<CalibrationStats>(input.size(-1), input.device(), accumulation,
                                               outlier_threshold_, options_.method.precision);
  stats->add(input);
  data.seconds_hessian += clock_.total() - before;
  clock_.enter("forward");
}

}  // namespace gptqb
