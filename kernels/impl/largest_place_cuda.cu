// A thread block a row.
#include "kernels/cuda_check.h"
#include "kernels/decode.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/launch_early.h"

namespace gptqb::kernels {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;

// A value and where it stands. Order: NaN, then larger values, then smaller places.
struct Place {
  float value = -INFINITY;
  int64_t at = INT64_MAX;
};

__device__ Place better(const Place& a, const Place& b) {
  if (isnan(a.value) != isnan(b.value)) return isnan(a.value) ? a : b;
  if (a.value > b.value) return a;
  if (b.value > a.value) return b;
  return a.at < b.at ? a : b;
}

__device__ Place best_of_warp(Place place) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    place = better(place, {__shfl_xor_sync(0xffffffffU, place.value, offset),
                           __shfl_xor_sync(0xffffffffU, place.at, offset)});
  return place;
}

template <class T>
__global__ void __launch_bounds__(kThreads) largest_place_kernel(LargestPlace problem) {
  __shared__ Place of_warp[kWarps];
  const T* const row = static_cast<const T*>(problem.x) + blockIdx.x * problem.columns;
  let_next_begin();
  wait_for_earlier_kernels();
  Place best;
  // Rows of another length start between vectors.
  const int64_t vectors = problem.columns % kVector == 0 ? problem.columns / kVector : 0;
#pragma unroll 4
  for (int64_t i = threadIdx.x; i < vectors; i += kThreads) {
    const Eight<T> eight = load<T>(row, i);
#pragma unroll
    for (int k = 0; k < kVector; ++k) best = better(best, {widen(eight.value[k]), i * kVector + k});
  }
  for (int64_t i = vectors * kVector + threadIdx.x; i < problem.columns; i += kThreads)
    best = better(best, {widen(row[i]), i});
  best = best_of_warp(best);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  best = best_of_warp(of_warp[threadIdx.x]);
  if (threadIdx.x == 0) problem.out[blockIdx.x] = best.at;
}

}  // namespace

void largest_place_cuda(const LargestPlace& problem, void* stream) {
  if (problem.rows == 0 || problem.columns == 0) return;
  const bool half = problem.type == HalfType::kFloat16;
  launch_early(half ? largest_place_kernel<__half> : largest_place_kernel<__nv_bfloat16>,
               problem.rows, kThreads, 0, /*early=*/true, static_cast<cudaStream_t>(stream),
               problem);
}

}  // namespace gptqb::kernels
