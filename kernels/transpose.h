// Transposed copies of matrices on a GPU, with columns taken in another order. Raw pointers to
// memory of the current device; work is queued on `stream` (a cudaStream_t). Throw Error if a
// launch fails, or in a build without CUDA.
#pragma once

#include <cstdint>

namespace gptqb::kernels {

// take_columns_cuda: out(p, r) = in(r, place(p)); put_columns_cuda: out(r, place(p)) = in(p, r).
// T is float or uint8_t.
template <class T>
struct Transpose {
  int64_t rows = 0;     // r
  int64_t columns = 0;  // p
  const T* in = nullptr;
  int64_t in_stride = 0;           // between rows of `in`
  const int64_t* place = nullptr;  // [columns], a permutation; null: natural order
  T* out = nullptr;
  int64_t out_stride = 0;  // between rows of `out`
};
void take_columns_cuda(const Transpose<float>& problem, void* stream);
void put_columns_cuda(const Transpose<uint8_t>& problem, void* stream);

}  // namespace gptqb::kernels
