// CUDA sweep: one thread a row, the chunk's part of N in shared memory, the row's errors in
// registers. Columns lie apart by `rows` elements, so that the threads of a warp read and write
// neighbouring addresses.
#include "kernels/cuda_check.h"
#include "kernels/device/rounding.cuh"
#include "kernels/solver.h"

namespace gptqb::kernels {
namespace {

constexpr int kColumns = static_cast<int>(SweepChunk<float>::kMaxColumns);
constexpr int kThreads = 64;  // small blocks: a layer has few rows for 132 multiprocessors

template <class T, bool kTernary>
__global__ void __launch_bounds__(kThreads) sweep_kernel(SweepChunk<T> chunk) {
  __shared__ T
      factor[kColumns][kColumns];  // N; zero below and on the diagonal, and beyond the chunk
  __shared__ T diagonal[kColumns];
  const int columns = static_cast<int>(chunk.columns);
  for (int k = threadIdx.x; k < kColumns * kColumns; k += kThreads) {
    const int i = k / kColumns;
    const int j = k % kColumns;
    factor[i][j] = i < j && j < columns ? chunk.factor[i * chunk.factor_stride + j] : T(0);
  }
  for (int j = threadIdx.x; j < columns; j += kThreads) diagonal[j] = chunk.diagonal[j];
  __syncthreads();

  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= chunk.rows) return;
  T errors[kColumns];
  double loss = 0;
#pragma unroll
  for (int j = 0; j < kColumns; ++j) {
    errors[j] = T(0);
    if (j < columns) {
      const int64_t at = j * chunk.rows + row;
      const int64_t grid = chunk.group_of_column[j] * chunk.rows + row;
      const T weight = chunk.weights[at];
      T value = weight + chunk.carried[at];
#pragma unroll
      for (int i = 0; i < j; ++i) value += errors[i] * factor[i][j];
      const T scale = chunk.scales[grid];
      const T zero = chunk.zeros[grid];
      T code, quantized;
      if constexpr (kTernary) {
        const bool upper = value > scale / 2;
        const bool lower = value < zero / 2;
        code = upper ? T(2) : lower ? T(0) : T(1);
        quantized = upper ? scale : lower ? zero : T(0);
      } else {
        code = round_half_even(divide(value, scale)) + zero;
        code = code < T(0) ? T(0) : code;
        code = code > chunk.max_code ? chunk.max_code : code;
        quantized = scale * (code - zero);
      }
      const T miss = (value - quantized) * diagonal[j];
      loss += 0.5 * (static_cast<double>(miss) * static_cast<double>(miss));
      errors[j] = weight - quantized;
      chunk.errors[at] = errors[j];
      chunk.codes[at] = static_cast<uint8_t>(code);
    }
  }
  chunk.losses[row] += loss;
}

template <class T>
void launch(const SweepChunk<T>& chunk, void* stream) {
  if (chunk.rows == 0) return;
  const auto blocks = static_cast<unsigned>((chunk.rows + kThreads - 1) / kThreads);
  const auto queue = static_cast<cudaStream_t>(stream);
  if (chunk.ternary)
    sweep_kernel<T, true><<<blocks, kThreads, 0, queue>>>(chunk);
  else
    sweep_kernel<T, false><<<blocks, kThreads, 0, queue>>>(chunk);
  GPTQB_CUDA_LAUNCHED("sweep_kernel");
}

}  // namespace

void sweep_cuda(const SweepChunk<float>& chunk, void* stream) { launch(chunk, stream); }
void sweep_cuda(const SweepChunk<double>& chunk, void* stream) { launch(chunk, stream); }

}  // namespace gptqb::kernels
