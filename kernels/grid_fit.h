// Grids for many short vectors of weights at once: range, scale, zero point and the search for a
// smaller range, in one pass over each vector. The rule is that of methods/grid.h, which is the
// oracle; only the order in which a candidate's errors are summed differs. Raw pointers only.
#pragma once

#include <cstdint>

namespace gptqb::kernels {

// Nothing is owned. Element (vector v, column j) of the weights is at v * vector_stride + j *
// column_stride.
struct GridFit {
  const float* weights = nullptr;
  int64_t vectors = 0;
  int64_t columns = 0;  // of each vector, at least 1
  int64_t vector_stride = 0;
  int64_t column_stride = 1;

  float max_code = 0;
  bool ternary = false;  // levels instead of scale and zero
  bool symmetric = false;
  bool one_sided = false;    // CompatPolicy::reference_one_sided
  bool include_zero = true;  // GridRule::include_zero
  bool half_scales = false;  // scales and levels rounded to float16, else left in float32
  int64_t candidates = 0;    // ranges to try, the whole one first; 0: no search
  double steps = 100;        // candidate i shrinks the range to 1 - i / steps
  float norm = 2.4F;         // exponent of the error that is summed

  float* scale = nullptr;  // out [vectors]: scale, or the upper level
  float* zero = nullptr;   // out [vectors]: zero point, or the lower level
};

// Queued on `stream` (a cudaStream_t). All pointers are memory of the current device. Throws Error
// if the launch fails, or in a build without CUDA.
void fit_grids_cuda(const GridFit& fit, void* stream);

}  // namespace gptqb::kernels
