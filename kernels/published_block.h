// A block of columns of GPTQ as the published code computes it (Frantar et al. 2023, Algorithm 1),
// column after column, with every operation rounded where its tensor operations round: the same
// bits in one kernel that several hundred launches would give.
#pragma once

#include <cstdint>

namespace gptqb::kernels {

// Matrices hold element (row r, column j) at r * stride + j; column j of all of them is column j of
// the block. Raw pointers to memory of the current device; nothing is owned.
struct PublishedBlock {
  static constexpr int64_t kMaxColumns = 128;

  int64_t rows = 0;
  int64_t columns = 0;  // 1 .. kMaxColumns
  const float* weights = nullptr;
  int64_t weights_stride = 0;
  const float* factor = nullptr;  // U of the block [columns, columns]; only i <= j is read
  int64_t factor_stride = 0;
  // Code q = clamp(round(w / scale) + zero, 0, max_code) stands for scale * (q - zero).
  const float* scales = nullptr;  // [rows, groups], contiguous
  const float* zeros = nullptr;   // [rows, groups], contiguous
  int64_t groups = 0;
  const int32_t* group_of_column = nullptr;  // [columns]
  float max_code = 0;
  float* codes = nullptr;  // out
  int64_t codes_stride = 0;
  float* errors = nullptr;   // out [rows, columns], contiguous: (w - q) / U_jj
  double* losses = nullptr;  // in and out [rows]: 1/2 sum of the squares of errors is added
};

// Queued on `stream` (a cudaStream_t). Throws Error if the launch fails, or in a build without
// CUDA.
void published_block_cuda(const PublishedBlock& block, void* stream);

}  // namespace gptqb::kernels
