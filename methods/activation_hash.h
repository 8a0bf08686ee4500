// A fingerprint of activations, taken where they lie: copying them to the host takes longer than
// computing them.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace gptqb {

// 64-bit hash, not cryptographic, of the values of `part` (any float dtype, shape and device) in
// row-major order; `seed` chains the parts of a stream. Sums of integers: the same bits give the
// same hash on any device and thread count.
uint64_t activation_hash(const at::Tensor& part, uint64_t seed = 0);

}  // namespace gptqb
