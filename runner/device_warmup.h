#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// Loads what the first operations of each kind on a GPU load (driver context, cuBLAS, cuSOLVER,
// attention), so that the first cell of a run takes as long as it would as the second: about a
// second. On a CPU it does nothing.
void warm_up(at::Device device);

}  // namespace gptqb
