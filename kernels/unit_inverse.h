// Inverses of small triangles with a diagonal of ones, many at once, for the weights that group
// grids are fitted on (methods/gptq_fast.h). Raw pointers only.
#pragma once

#include <cstdint>

namespace gptqb::kernels {

// Of the diagonal blocks of N that start at begins[k], the inverses of their transposes.
struct UnitInverse {
  static constexpr int64_t kMaxSize = 128;

  // N: (i, j) at i * factor_stride + j; of a block only i < j is read.
  const float* factor = nullptr;
  int64_t factor_stride = 0;
  const int64_t* begins = nullptr;  // [count]
  int64_t count = 0;
  int64_t size = 0;          // of a block, 1 .. kMaxSize
  float* inverse = nullptr;  // out [count, size, size], zero above the diagonal
};

// Queued on `stream` (a cudaStream_t). All pointers are memory of the current device. Throws Error
// if the launch fails, or in a build without CUDA.
void invert_unit_cuda(const UnitInverse& problem, void* stream);

}  // namespace gptqb::kernels
