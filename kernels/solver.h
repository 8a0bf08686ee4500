// The innermost loop of GPTQ: a chunk of columns, quantized one after another with error feedback.
//
// Matrices are stored by column: element (column j, row r) of a [columns, rows] matrix is at j *
// rows + r, so that rows, which are independent of each other, lie side by side for SIMD lanes and
// for the threads of a warp. What the numbers mean is in methods/gptq_fast.h. Raw pointers only.
#pragma once

#include <cstdint>

namespace gptqb::kernels {

// One chunk of columns. T is float or double. Nothing is owned.
template <class T>
struct SweepChunk {
  static constexpr int64_t kMaxColumns = 32;       // of sweep_cpu
  static constexpr int64_t kMaxCudaColumns = 128;  // of sweep_cuda

  int64_t rows = 0;
  int64_t columns = 0;         // 1 .. the most that the kernel takes
  const T* weights = nullptr;  // [columns, rows]: W, original weights
  const T* carried = nullptr;  // [columns, rows]: E N over all columns before this chunk
  // N of this chunk: (i, j) at i * factor_stride + j; only i < j is read.
  const T* factor = nullptr;
  int64_t factor_stride = 0;
  const T* diagonal = nullptr;  // [columns]: R_jj, for the loss
  // Grids: code q = clamp(round(t / scale) + zero, 0, max_code) stands for scale * (q - zero).
  // Ternary: `scales` are the upper levels, `zeros` the lower ones; t above half the upper level
  // takes it (code 2), below half the lower level takes that (code 0), else 0 (code 1).
  const T* scales = nullptr;                 // [groups, rows]
  const T* zeros = nullptr;                  // [groups, rows], integers or lower levels
  const int32_t* group_of_column = nullptr;  // [columns]: row of `scales` and `zeros`
  T max_code = 0;
  bool ternary = false;
  uint8_t* codes = nullptr;  // out [columns, rows]
  T* errors = nullptr;       // out [columns, rows]: E = W - Q
  double* losses = nullptr;  // in and out [rows]: 1/2 sum of ((t - Q) R_jj)^2 is added
};

// Rows [row_begin, row_end) of the chunk on the calling thread. All pointers are host memory.
void sweep_cpu(const SweepChunk<float>& chunk, int64_t row_begin, int64_t row_end);
void sweep_cpu(const SweepChunk<double>& chunk, int64_t row_begin, int64_t row_end);

// The whole chunk, queued on `stream` (a cudaStream_t). All pointers are memory of the current
// device. Throws Error if the launch fails, or in a build without CUDA.
void sweep_cuda(const SweepChunk<float>& chunk, void* stream);
void sweep_cuda(const SweepChunk<double>& chunk, void* stream);

}  // namespace gptqb::kernels
