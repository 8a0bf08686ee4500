// The packed form of a linear in compressed-tensors folders of format `pack-quantized`
// (LLM-Compressor): to the canonical one.
#pragma once

#include <ATen/ATen.h>

#include <string>

#include "methods/quantized_linear.h"
#include "models/packed_layer.h"

namespace gptqb {

// On the CPU, contiguous. Codes and zero points are signed numbers, stored plus 2^(b-1), so that
// what is stored is the canonical form's own.
struct CompressedTensors {
  at::Tensor weight_packed;      // i32 [out, ceil(in b / 32)], packed along the inputs
  at::Tensor weight_scale;       // f16, bf16 or f32 [out, groups]
  at::Tensor weight_zero_point;  // i32 [ceil(out b / 32), groups], packed along the outputs;
                                 // undefined if symmetric, where all zero points are 2^(b-1)
  at::Tensor weight_shape;       // i64 [2]: out, in
  at::Tensor weight_g_idx;       // i32 [in]; undefined: i / group_size
};

// For a layer of `out` x `in`. Throws Error naming `where` and the tensor: a wrong shape or dtype,
// a group out of range, a scale that is not finite.
QuantizedLinear unpack_compressed(const CompressedTensors& tensors, const PackedLayer& layer,
                                  int64_t out, int64_t in, const std::string& where);

}  // namespace gptqb
