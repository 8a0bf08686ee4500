// What is to be done with each linear of a model, resolved before any work.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "methods/block_model.h"
#include "methods/quantize_model.h"

namespace gptqb {

struct LayerPlan {
  std::string linear;  // name within the block
  std::string layer;   // full name
  LayerSettings settings;
  std::shared_ptr<const Quantizer> quantizer;  // null: stays dense
  std::string skipped;                         // why, if it stays dense
};

using StagePlan = std::vector<LayerPlan>;  // linears that read the same input
using BlockPlan = std::vector<StagePlan>;

// Whether a linear of the stage is quantized.
bool has_work(const StagePlan& stage);
// One past the last stage of a block in which a linear is quantized.
size_t stages_with_work(const BlockPlan& block);
// Of a linear that stays dense.
LayerHealth skipped_health(const LayerPlan& layer);

struct ModelPlan {
  std::vector<BlockPlan> blocks;
  std::optional<LayerPlan> head;            // empty: stays dense
  std::optional<double> outlier_threshold;  // of a method that counts outliers of its inputs
  bool anything_to_do = false;              // whether a linear, the head or the embedding changes
};

// Asks `options.settings` once for each linear. Throws Error naming the layer: settings that are
// impossible, and a method that needs calibration windows where there are none.
ModelPlan plan_layers(const BlockModel& model, const QuantizeOptions& options,
                      bool has_calibration);

}  // namespace gptqb
