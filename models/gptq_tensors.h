// The packed form of a linear in `gptq` and `gptq_v2` checkpoints (AutoGPTQ, GPTQModel): from and
// to the canonical one.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "methods/quantized_linear.h"
#include "models/packed_layer.h"

namespace gptqb {

// All on the CPU, contiguous. Fields of b bits lie in 32-bit words as bit_fields.h says.
struct GptqTensors {
  at::Tensor qweight;  // i32 [ceil(in b / 32), out]: codes, packed along the inputs
  at::Tensor qzeros;   // i32 [groups, ceil(out b / 32)]: zero points (v1: less 1), packed along the
                       // outputs
  at::Tensor scales;   // f16 [groups, out]; others' files also bf16 or f32
  at::Tensor g_idx;    // i32 [in]: the group of each input; undefined: i / group_size
};

// Packs codes and grids on any device. `format`: kGptq or kGptqV2. Throws Error naming `where` and
// the place: ternary codes, a scale that float16 does not hold, a zero point of 0 under `gptq`,
// which has no number for it.
GptqTensors pack_gptq(const QuantizedLinear& linear, PackedFormat format, const std::string& where);

// The inverse for a layer of `out` x `in`. An index that says i / group_size is left out. Throws
// Error naming `where` and the tensor: a wrong shape or dtype, a group out of range, a scale that
// is not finite, under `gptq` a field of all ones, which readers take for 2^b or for 0.
QuantizedLinear unpack_gptq(const GptqTensors& tensors, const PackedLayer& layer, int64_t out,
                            int64_t in, const std::string& where);

}  // namespace gptqb
