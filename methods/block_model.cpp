#include "methods/block_model.h"

#include "common/error.h"

namespace gptqb {

at::Tensor BlockModel::run_block(const at::Tensor& hidden) {
  BlockActivations activations = begin(hidden);
  for (size_t stage = 0; stage < stages().size(); ++stage) run_stage(stage, activations);
  return activations.residual;
}

void BlockModel::divide_output(const std::string& producer, const at::Tensor&) {
  throw Error(producer, "expected a model in which scales can move, got one without a scale plan");
}

void BlockModel::try_weights(const std::string& linear, const at::Tensor&) {
  throw Error(linear, "expected a model that can try weights, got one that cannot");
}

at::Tensor BlockModel::run_linear(const std::string& linear, const at::Tensor& input) const {
  return at::linear(input, weight(linear));
}

}  // namespace gptqb
