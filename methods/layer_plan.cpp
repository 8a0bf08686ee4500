#include "methods/layer_plan.h"

#include <algorithm>
#include <map>

#include "common/error.h"
#include "common/text.h"

namespace gptqb {
namespace {

class Planner {
 public:
  Planner(const QuantizeOptions& options, bool has_calibration)
      : options_(options), has_calibration_(has_calibration) {}

  LayerPlan plan_layer(const std::string& layer, const std::string& linear) {
    LayerPlan plan{.linear = linear,
                   .layer = layer,
                   .settings = options_.settings(layer),
                   .quantizer = nullptr,
                   .skipped = ""};
    if (plan.settings.skip) {
      plan.skipped = "skipped: left dense by an override";
      return plan;
    }
    if (!glob_match(options_.method.layers, layer)) {
      plan.skipped = "skipped: left dense, not of method.layers " + options_.method.layers;
      return plan;
    }
    const auto& name = plan.settings.method;
    if (!made_.contains(name)) made_[name] = quantizers().at(name).make();
    plan.quantizer = made_[name];
    if (!plan.quantizer) {
      plan.skipped = "skipped: method " + name + " leaves layers dense";
      return plan;
    }
    plan.settings.quant.validate(layer);
    if (plan.quantizer->prepares_blocks() && options_.method.true_sequential)
      throw Error(layer, "expected true_sequential: false for method " + name +
                             ", which looks at a block as a whole, got true");
    require_windows(plan, name);
    return plan;
  }

  // The head is a linear like others, but no rule of the layers reaches it.
  LayerPlan plan_head(const std::string& name) const {
    const std::string& method = options_.method.name;
    LayerPlan plan{.linear = name,
                   .layer = name,
                   .settings = {.skip = false, .method = method, .quant = *options_.head},
                   .quantizer = quantizers().at(method).make(),
                   .skipped = ""};
    plan.settings.quant.validate(name);
    if (!plan.quantizer) throw Error(name, "expected a method that quantizes, got " + method);
    require_windows(plan, method);
    return plan;
  }

 private:
  void require_windows(const LayerPlan& plan, const std::string& method) const {
    if (plan.quantizer->needs_stats() && !has_calibration_)
      throw Error(plan.layer, "expected calibration windows for method " + method + ", got none");
  }

  const QuantizeOptions& options_;
  bool has_calibration_;
  std::map<std::string, std::shared_ptr<const Quantizer>> made_;
};

}  // namespace

bool has_work(const StagePlan& stage) {
  return std::any_of(stage.begin(), stage.end(),
                     [](const LayerPlan& layer) { return layer.quantizer != nullptr; });
}

size_t stages_with_work(const BlockPlan& block) {
  size_t count = 0;
  for (size_t stage = 0; stage < block.size(); ++stage)
    if (has_work(block[stage])) count = stage + 1;
  return count;
}

LayerHealth skipped_health(const LayerPlan& layer) {
  LayerHealth health;
  health.layer = layer.layer;
  health.method = "none";
  health.status = layer.skipped;
  health.rule = layer.settings.rule;
  return health;
}

ModelPlan plan_layers(const BlockModel& model, const QuantizeOptions& options,
                      bool has_calibration) {
  Planner planner(options, has_calibration);
  ModelPlan plan;
  for (int64_t block = 0; block < model.block_count(); ++block) {
    BlockPlan& stages = plan.blocks.emplace_back();
    for (const Stage& stage : model.stages()) {
      StagePlan& layers = stages.emplace_back();
      for (const std::string& linear : stage.linears) {
        layers.push_back(planner.plan_layer(model.block_name(block) + "." + linear, linear));
        if (!layers.back().quantizer) continue;
        if (const auto threshold = layers.back().quantizer->outlier_threshold(options.method))
          plan.outlier_threshold = threshold;
      }
    }
    if (stages_with_work(stages) > 0) plan.anything_to_do = true;
  }
  if (options.head) plan.head = planner.plan_head(model.extras().head);
  if (options.embedding) options.embedding->validate(model.extras().embedding);
  if (options.head || options.embedding) plan.anything_to_do = true;
  return plan;
}

}  // namespace gptqb
