// The innermost loops of OBQ: whole rows, each with its own order of columns and its own inverse
// that shrinks by one row and column a step (methods/obq_reference.cpp says what is computed).
//
// The inverse is not rewritten at every step. With p the column just quantized, removing it is
//   A <- A - u u^T,  u = A[:, p] / sqrt(A_pp);
// the last few u are kept aside, the row that the next step needs is completed from them, and the
// matrix is rewritten once for all of them: the lazy batch updates of the GPTQ paper (section 3.3,
// step 2), here inside one row. Removed columns leave the matrix, so that a row costs n^3 / 3
// multiply-adds (half of it on the CPU, which keeps one triangle). Raw pointers only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gptqb::kernels {

// Rows of one layer, row-major. T is float or double. Nothing is owned.
template <class T>
struct ObqRows {
  static constexpr int64_t kPending = 16;  // removals after which the matrix is rewritten

  int64_t rows = 0;
  int64_t columns = 0;
  int64_t groups = 0;
  const T* weights = nullptr;                // [rows, columns]
  const T* inverse = nullptr;                // [columns, columns]: H^-1, symmetric
  const T* scales = nullptr;                 // [rows, groups]
  const T* zeros = nullptr;                  // [rows, groups], integers or lower levels
  bool ternary = false;                      // levels instead of grids, as in kernels/solver.h
  const int32_t* group_of_column = nullptr;  // [columns]
  T max_code = 0;
  bool greedy = true;          // false: columns in order, 0 first
  bool outlier_first = false;  // greedy: errors above half a step first, the largest of them
  // A pivot that is not above this share of its column's first one is lost to rounding.
  T smallest_pivot = 0;
  uint8_t* codes = nullptr;  // out [rows, columns]
  int32_t* steps = nullptr;  // out [rows, columns]: the column taken at each step
  double* losses = nullptr;  // out [rows]: 1/2 sum of (w - q)^2 / A_pp
  int32_t* failed =
      nullptr;  // out [rows]: the column whose pivot was lost, where the row stopped; -1
};

// Bytes of working memory for each row in flight; a multiple of 256.
template <class T>
constexpr size_t obq_workspace_bytes(int64_t columns) {
  const auto n = static_cast<size_t>(columns);
  const size_t numbers = n * n + n * static_cast<size_t>(ObqRows<T>::kPending) + 6 * n;
  return (numbers * sizeof(T) + n * sizeof(int32_t) + 255) / 256 * 256;
}

// Rows first, first + step, ... on the calling thread. All pointers are host memory; `workspace`
// has obq_workspace_bytes(), aligned for T.
void obq_cpu(const ObqRows<float>& problem, int64_t first, int64_t step, void* workspace);
void obq_cpu(const ObqRows<double>& problem, int64_t first, int64_t step, void* workspace);

// All rows, `in_flight` at a time, queued on `stream` (a cudaStream_t). All pointers are memory of
// the current device; `workspace` has in_flight * obq_workspace_bytes(), aligned to 256 bytes.
// Throws Error if the launch fails, or in a build without CUDA.
void obq_cuda(const ObqRows<float>& problem, int64_t in_flight, void* workspace, void* stream);
void obq_cuda(const ObqRows<double>& problem, int64_t in_flight, void* workspace, void* stream);

}  // namespace gptqb::kernels
