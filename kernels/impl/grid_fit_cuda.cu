// 32 vectors a block, so that either layout is read by neighbouring threads; 16 threads a vector,
// which first share its columns, for the range, and then the candidates of the search.
#include "kernels/cuda_check.h"
#include "kernels/device/grid.cuh"
#include "kernels/device/rounding.cuh"
#include "kernels/grid_fit.h"

namespace gptqb::kernels {
namespace {

constexpr int kVectors = 32;
constexpr int kLanes = 16;
constexpr int kThreads = kVectors * kLanes;
constexpr int kTile = 64;       // columns in shared memory at a time
constexpr int kCandidates = 8;  // that a thread follows in one pass over the vector

using Tile = float[kTile][kVectors + 1];

// Columns [begin, begin + kTile) of the block's vectors, as far as there are any.
__device__ void load_tile(const GridFit& fit, int64_t first, int64_t begin, Tile& tile) {
  __syncthreads();
  const bool by_column = fit.vector_stride == 1;
  for (int k = threadIdx.x; k < kTile * kVectors; k += kThreads) {
    const int vector = by_column ? k % kVectors : k / kTile;
    const int column = by_column ? k / kVectors : k % kTile;
    if (first + vector < fit.vectors && begin + column < fit.columns)
      tile[column][vector] =
          fit.weights[(first + vector) * fit.vector_stride + (begin + column) * fit.column_stride];
  }
  __syncthreads();
}

struct Best {
  double error;
  int64_t candidate;  // of equal errors the first, which has the larger range
};

__device__ bool better(const Best& a, const Best& b) {
  return a.error < b.error || (a.error == b.error && a.candidate < b.candidate);
}

__device__ DeviceGrid candidate_grid(const GridFit& fit, DeviceRange range, int64_t candidate) {
  const auto share = static_cast<float>(1.0 - static_cast<double>(candidate) / fit.steps);
  return grid_of_range(
      DeviceRange{__fmul_rn(range.low, share), __fmul_rn(range.high, share), range.least_width},
      fit);
}

// The best of the candidates that are this lane's: candidate k belongs to lane k % kLanes.
__device__ Best search(const GridFit& fit, int64_t first, int vector, int lane, DeviceRange range,
                       Tile& tile) {
  Best best{INFINITY, 0};
  for (int64_t pass = 0; pass < fit.candidates; pass += kLanes * kCandidates) {
    DeviceGrid grids[kCandidates];
    double sums[kCandidates];
#pragma unroll
    for (int k = 0; k < kCandidates; ++k) {
      grids[k] = candidate_grid(fit, range, pass + k * kLanes + lane);
      sums[k] = 0;
    }
    for (int64_t begin = 0; begin < fit.columns; begin += kTile) {
      load_tile(fit, first, begin, tile);
      const int count = static_cast<int>(min(static_cast<int64_t>(kTile), fit.columns - begin));
#pragma unroll
      for (int k = 0; k < kCandidates; ++k) {
        if (pass + k * kLanes + lane >= fit.candidates) continue;
        float sum = 0;
        for (int j = 0; j < count; ++j)
          sum += powf(rounding_error(tile[j][vector], grids[k], fit.max_code), fit.norm);
        sums[k] += sum;
      }
    }
#pragma unroll
    for (int k = 0; k < kCandidates; ++k) {
      const Best mine{sums[k], pass + k * kLanes + lane};
      if (mine.candidate < fit.candidates && better(mine, best)) best = mine;
    }
  }
  return best;
}

__global__ void __launch_bounds__(kThreads) fit_kernel(GridFit fit) {
  __shared__ Tile tile;
  __shared__ float lows[kLanes][kVectors];
  __shared__ float highs[kLanes][kVectors];
  __shared__ Best bests[kLanes][kVectors];
  const int vector = threadIdx.x % kVectors;
  const int lane = threadIdx.x / kVectors;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kVectors;

  float low = INFINITY;
  float high = -INFINITY;
  const auto include = [&](float weight) {
    low = fminf(low, weight);
    high = fmaxf(high, weight);
  };
  if (fit.vector_stride == 1) {
    // Neighbouring threads read neighbouring vectors as they lie.
    const float* const column = fit.weights + min(first + vector, fit.vectors - 1);
#pragma unroll 8
    for (int64_t j = lane; j < fit.columns; j += kLanes) include(column[j * fit.column_stride]);
  } else {
    for (int64_t begin = 0; begin < fit.columns; begin += kTile) {
      load_tile(fit, first, begin, tile);
      const int count = static_cast<int>(min(static_cast<int64_t>(kTile), fit.columns - begin));
      for (int j = lane; j < count; j += kLanes) include(tile[j][vector]);
    }
  }
  lows[lane][vector] = low;
  highs[lane][vector] = high;
  __syncthreads();
  for (int k = 0; k < kLanes; ++k) {
    low = fminf(low, lows[k][vector]);
    high = fmaxf(high, highs[k][vector]);
  }
  const DeviceRange range = represented_range(low, high, fit);

  int64_t candidate = -1;
  if (fit.candidates > 0) {
    bests[lane][vector] = search(fit, first, vector, lane, range, tile);
    __syncthreads();
    Best best = bests[0][vector];
    for (int k = 1; k < kLanes; ++k)
      if (better(bests[k][vector], best)) best = bests[k][vector];
    if (best.error < INFINITY) candidate = best.candidate;
  }
  if (lane != 0 || first + vector >= fit.vectors) return;
  const DeviceGrid grid =
      candidate < 0 ? grid_of_range(range, fit) : candidate_grid(fit, range, candidate);
  fit.scale[first + vector] = grid.scale;
  fit.zero[first + vector] = grid.zero;
}

}  // namespace

void fit_grids_cuda(const GridFit& fit, void* stream) {
  if (fit.vectors == 0) return;
  const auto blocks = static_cast<unsigned>((fit.vectors + kVectors - 1) / kVectors);
  fit_kernel<<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(fit);
  GPTQB_CUDA_LAUNCHED("fit_kernel");
}

}  // namespace gptqb::kernels
