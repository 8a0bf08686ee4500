// A device of ATen as selection of kernels sees it.
#pragma once

#include <ATen/ATen.h>

#include "kernels/matmul.h"

namespace gptqb {

// What selection of a kernel needs to know of `device`. Throws Error if there is no such device.
kernels::MatmulDevice matmul_device(at::Device device);

}  // namespace gptqb
