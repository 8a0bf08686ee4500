// A row lies in the registers of one warp, or of two or eight where it is long, from the only time
// that it is read to the only time that it is written. What lies beyond the last score that a row
// sees is not read at all.
#include <cmath>

#include "kernels/cuda_check.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/forward.h"

namespace gptqb::kernels {
namespace {

constexpr int kLanes = 32;
constexpr int kWarps = 8;  // of a block of threads

// Scores [column, column + 8) of a row, as far as they are visible; the rest as if infinitely low.
// kAligned: the eight can be read at once.
template <class T, bool kAligned>
__device__ inline void load_visible(const T* row, int column, int visible, float* values) {
  if (kAligned && column < visible) {
    const Eight<T> eight = load<T>(row, column / kVector);
#pragma unroll
    for (int k = 0; k < kVector; ++k)
      values[k] = column + k < visible ? widen(eight.value[k]) : -INFINITY;
    return;
  }
#pragma unroll
  for (int k = 0; k < kVector; ++k)
    values[k] = column + k < visible ? widen(row[column + k]) : -INFINITY;
}

template <class T, bool kAligned>
__device__ inline void store_shares(T* row, int column, int columns, const float* values,
                                    float inverse) {
  Eight<T> eight;
#pragma unroll
  for (int k = 0; k < kVector; ++k) eight.value[k] = rounded<T>(__fmul_rn(values[k], inverse));
  if constexpr (kAligned) {
    if (column < columns) store(row, column / kVector, eight);
  } else {
#pragma unroll
    for (int k = 0; k < kVector; ++k)
      if (column + k < columns) row[column + k] = eight.value[k];
  }
}

// `combine` of one value of each thread of the kParts warps of a row; all of them have it.
template <int kParts, class Combine>
__device__ inline float over_row(float value, Combine combine, float* shared) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, offset));
  if constexpr (kParts == 1) return value;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  __syncthreads();  // earlier values have been read
  if (threadIdx.x % kLanes == 0) shared[warp] = value;
  __syncthreads();
  const int first = warp / kParts * kParts;
  value = shared[first];
#pragma unroll
  for (int part = 1; part < kParts; ++part) value = combine(value, shared[first + part]);
  return value;
}

// kParts warps a row, kEights times eight scores a thread.
template <class T, int kParts, int kEights, bool kAligned>
__global__ void __launch_bounds__(kLanes* kWarps)
    causal_softmax_kernel(CausalSoftmax problem, unsigned rows_of_all) {
  __shared__ float shared[kWarps];
  constexpr int kThreads = kLanes * kParts;  // of a row
  constexpr unsigned kRows = kWarps / kParts;
  const unsigned row = blockIdx.x * kRows + threadIdx.x / kThreads;
  const bool exists = row < rows_of_all;  // all threads of a block wait for each other
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const int columns = static_cast<int>(problem.columns);
  const auto seen = problem.first + row % static_cast<unsigned>(problem.rows) + 1;
  const int visible = exists ? static_cast<int>(min(seen, problem.columns)) : 0;
  T* const scores = static_cast<T*>(problem.scores) + static_cast<int64_t>(row) * columns;

  float values[kEights * kVector];
  float largest = -INFINITY;
#pragma unroll
  for (int e = 0; e < kEights; ++e) {
    const int column = (e * kThreads + thread) * kVector;
    load_visible<T, kAligned>(scores, column, visible, values + e * kVector);
#pragma unroll
    for (int k = 0; k < kVector; ++k) largest = fmaxf(largest, values[e * kVector + k]);
  }
  largest = over_row<kParts>(
      largest, [](float a, float b) { return fmaxf(a, b); }, shared);

  float sum = 0.F;
#pragma unroll
  for (int e = 0; e < kEights; ++e) {
    const bool any = (e * kThreads + thread) * kVector < visible;
#pragma unroll
    for (int k = 0; k < kVector; ++k) {
      float& value = values[e * kVector + k];
      value = any ? expf(value - largest) : 0.F;
      sum += value;
    }
  }
  sum = over_row<kParts>(
      sum, [](float a, float b) { return a + b; }, shared);

  // A row that holds a NaN or +infinity, or nothing but -infinity, has a sum that is no number, and
  // so become all its shares, those of hidden scores too.
  const float inverse = __fdiv_rn(1.F, sum);
  if (!exists) return;
#pragma unroll
  for (int e = 0; e < kEights; ++e)
    store_shares<T, kAligned>(scores, (e * kThreads + thread) * kVector, columns,
                              values + e * kVector, inverse);
}

template <class T, int kParts, int kEights, bool kAligned>
void launch(const CausalSoftmax& problem, void* stream) {
  const int64_t rows = problem.matrices * problem.rows;
  constexpr int64_t kRows = kWarps / kParts;
  causal_softmax_kernel<T, kParts, kEights, kAligned>
      <<<static_cast<unsigned>((rows + kRows - 1) / kRows), kLanes * kWarps, 0,
         static_cast<cudaStream_t>(stream)>>>(problem, static_cast<unsigned>(rows));
  GPTQB_CUDA_LAUNCHED("causal_softmax_kernel");
}

template <class T, bool kAligned>
void launch_for_length(const CausalSoftmax& problem, void* stream) {
  constexpr int64_t kOfWarp = kLanes * kVector;
  if (problem.columns <= 2 * kOfWarp)
    launch<T, 1, 2, kAligned>(problem, stream);
  else if (problem.columns <= 2 * 4 * kOfWarp)
    launch<T, 2, 4, kAligned>(problem, stream);
  else
    launch<T, 8, 4, kAligned>(problem, stream);
  static_assert(8 * 4 * kOfWarp == CausalSoftmax::kMaxColumns);
}

template <class T>
void launch_for_alignment(const CausalSoftmax& problem, void* stream) {
  const bool aligned = problem.columns % kVector == 0 &&
                       reinterpret_cast<uintptr_t>(problem.scores) % sizeof(Eight<T>) == 0;
  if (aligned)
    launch_for_length<T, true>(problem, stream);
  else
    launch_for_length<T, false>(problem, stream);
}

}  // namespace

void causal_softmax_cuda(const CausalSoftmax& problem, void* stream) {
  if (problem.matrices == 0 || problem.rows == 0) return;
  if (problem.type == HalfType::kFloat16)
    launch_for_alignment<__half>(problem, stream);
  else
    launch_for_alignment<__nv_bfloat16>(problem, stream);
}

}  // namespace gptqb::kernels
