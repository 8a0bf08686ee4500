// The word embedding, quantized on request.
#pragma once

#include <ATen/ATen.h>

#include "methods/block_model.h"
#include "methods/quantizer.h"

namespace gptqb {

// Rounds the embedding of `model` (as loaded) to the nearest, row by row in groups of
// `quant.group_size` columns; the model is left as it is. Nothing is gained by H: the input of an
// embedding is one-hot, so H is diagonal, no error of one row can be made up for in another, and
// GPTQ's codes are those of rounding. `calibration` and `heldout` are i64 [sequences, seqlen] ids
// (either may be undefined); the errors of the health are over the rows that they look up, each as
// often as it is looked up. Throws Error naming the embedding: a weight that is not finite.
LayerResult quantize_embedding(BlockModel& model, const QuantConfig& quant,
                               const CompatPolicy& compat, const at::Tensor& calibration,
                               const at::Tensor& heldout);

}  // namespace gptqb
