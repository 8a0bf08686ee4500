// Windows through the loaded block, and the statistics that are taken on the way.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "methods/activation_stream.h"
#include "methods/block_model.h"
#include "methods/calibration.h"
#include "methods/clock.h"
#include "methods/graph_replay.h"
#include "methods/hessian.h"
#include "methods/layer_plan.h"

namespace gptqb {

// What the linears of a stage read: in H, on held-out windows, and the factor they share.
struct StageData {
  std::unique_ptr<CalibrationStats> stats;
  std::unique_ptr<CalibrationStats> heldout;
  FactorCache factors;
  double seconds_hessian = 0;
  // Single windows of the published sums, not added yet (BlockPasses::add).
  std::vector<at::Tensor> waiting;
};
// One of the two.
using StatsMember = std::unique_ptr<CalibrationStats> StageData::*;

// Windows somewhere inside a block.
struct KeptActivations {
  Stream residual;
  Stream input;
};

// Every pass is booked on `forward` of the clock, sums for H on `hessian`. Throws Interrupted
// between chunks.
class BlockPasses {
 public:
  BlockPasses(BlockModel& model, const QuantizeOptions& options, PhaseClock& clock)
      : model_(model), options_(options), clock_(clock) {}

  // Inputs of at least this size are counted by the statistics.
  void count_outliers(std::optional<double> threshold) { outlier_threshold_ = threshold; }

  // Hidden states that enter block 0, of ids [sequences, seqlen].
  Stream embed(const at::Tensor& ids);

  // The loaded block's outputs in place of its inputs, or beside them.
  void run(Stream& stream);
  Stream outputs(const Stream& stream);

  // Statistics of all stages in which a linear is quantized, from one pass over the block as it is.
  // With `to_the_end` the block's output is returned; otherwise the pass stops at the input of the
  // last stage that needs statistics.
  Stream collect_all(const BlockPlan& plan, const Stream& stream, StatsMember member,
                     bool to_the_end, std::vector<StageData>& data);

  // The same stage by stage on kept intermediates.
  KeptActivations begin(Stream stream);
  void collect(const KeptActivations& activations, StatsMember member, StageData& data);
  void run_stage(size_t stage, KeptActivations& activations);

  // Adds one input [sequences, seqlen, in] to statistics, which are made when their size is first
  // seen. Single windows of the published sums wait for each other, so that a GPU is not waited for
  // after each of them: add_waiting() ends a pass.
  void add(const at::Tensor& input, StatsMember member, StageData& data);
  void add_waiting(StatsMember member, StageData& data);

 private:
  Stream empty_stream() const { return {model_.device(), options_.activations_on_host}; }
  // Whether `stream` is many single windows, which launches would hold up.
  bool worth_recording(const Stream& stream) const;

  BlockModel& model_;
  const QuantizeOptions& options_;
  PhaseClock& clock_;
  std::optional<double> outlier_threshold_;
  GraphReplay replay_;
};

}  // namespace gptqb
