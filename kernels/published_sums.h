// What the published code does to its inputs and to H for each window, beside the product of the
// two (Frantar et al. 2023, code: gptq.py, add_batch), in the same order of roundings.
#pragma once

#include <cstdint>

#include "kernels/half_type.h"

namespace gptqb::kernels {

// out[i] = float(x[i]) * factor. 16-byte aligned pointers of the current device.
struct ScaledInputs {
  HalfType type = HalfType::kFloat16;
  int64_t count = 0;  // a multiple of 8
  float factor = 1;
  const void* x = nullptr;
  float* out = nullptr;
};

// sum[i] = round(sum[i] * factor) + product[i].
struct RunningSum {
  int64_t count = 0;  // a multiple of 4
  float factor = 1;
  const float* product = nullptr;
  float* sum = nullptr;
};

// Queued on `stream` (a cudaStream_t). Throw Error if the launch fails, or in a build without CUDA.
void scale_inputs_cuda(const ScaledInputs& problem, void* stream);
void add_to_running_sum_cuda(const RunningSum& problem, void* stream);

}  // namespace gptqb::kernels
