#include "methods/block_model.h"

namespace gptqb {

at::Tensor BlockModel::run_block(const at::Tensor& hidden) {
  BlockActivations activations = begin(hidden);
  for (size_t stage = 0; stage < stages().size(); ++stage) run_stage(stage, activations);
  return activations.residual;
}

}  // namespace gptqb
