// Tiles are turned in shared memory, so that both matrices are read and written in runs.
#include "kernels/cuda_check.h"
#include "kernels/transpose.h"

namespace gptqb::kernels {
namespace {

constexpr int kTile = 64;
constexpr int kThreads = 256;
constexpr int kStep = kThreads / kTile;  // rows of a tile that are read at a time

// out(c, r) = in(r, c), where `kTake` reads columns c at place(c), and else rows r are written
// there.
template <class T, bool kTake>
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(Transpose<T> problem, int64_t rows, int64_t columns) {
  __shared__ T tile[kTile][kTile + 4 / sizeof(T)];
  const int within = static_cast<int>(threadIdx.x) % kTile;
  const int step = static_cast<int>(threadIdx.x) / kTile;
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile;
  const auto placed = [&](int64_t index) {
    return problem.place == nullptr ? index : problem.place[index];
  };
  if (column + within < columns) {
    const T* const from = problem.in + (kTake ? placed(column + within) : column + within);
#pragma unroll 8
    for (int k = step; k < kTile; k += kStep)
      if (row + k < rows) tile[k][within] = from[(row + k) * problem.in_stride];
  }
  __syncthreads();
  if (row + within >= rows) return;
  T* const to = problem.out + (kTake ? row + within : placed(row + within));
#pragma unroll 8
  for (int k = step; k < kTile; k += kStep)
    if (column + k < columns) to[(column + k) * problem.out_stride] = tile[within][k];
}

template <class T, bool kTake>
void launch(const Transpose<T>& problem, int64_t rows, int64_t columns, void* stream) {
  if (rows == 0 || columns == 0) return;
  const dim3 blocks(static_cast<unsigned>((columns + kTile - 1) / kTile),
                    static_cast<unsigned>((rows + kTile - 1) / kTile));
  transpose_kernel<T, kTake>
      <<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(problem, rows, columns);
  GPTQB_CUDA_LAUNCHED("transpose_kernel");
}

}  // namespace

void take_columns_cuda(const Transpose<float>& problem, void* stream) {
  launch<float, true>(problem, problem.rows, problem.columns, stream);
}

void put_columns_cuda(const Transpose<uint8_t>& problem, void* stream) {
  launch<uint8_t, false>(problem, problem.columns, problem.rows, stream);
}

}  // namespace gptqb::kernels
