// One block a multiprocessor takes tile after tile: a warp of copies keeps stages of shared memory
// full, two warpgroups multiply, 64 x 256 sums each in registers. Tiles that lie together run
// together, so that blocks find each other's inputs in the L2 cache.
#include <cuda.h>

#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/device/hopper.cuh"
#include "kernels/second_moments.h"

namespace gptqb::kernels {
namespace {

constexpr int kTileRows = 128;
constexpr int kTileColumns = 256;
constexpr int kTokens = 64;  // of a stage
constexpr int kBox = 64;     // features of a box
constexpr int kBoxBytes = kTokens * kBox * 2;
constexpr int kRowBoxes = kTileRows / kBox;
constexpr int kColumnBoxes = kTileColumns / kBox;
constexpr int kStageBytes = (kRowBoxes + kColumnBoxes) * kBoxBytes;
constexpr int kStages = 4;
constexpr int kWarpgroup = 128;
constexpr int kMultipliers = 2;  // warpgroups
constexpr int kThreads = (1 + kMultipliers) * kWarpgroup;
constexpr int kAlignment = 1024;  // of swizzled boxes
constexpr int kSharedBytes = kStages * kStageBytes + kAlignment;
// Columns of tiles that are walked together, and the rows of tiles that are as wide.
constexpr int64_t kBandColumns = 8;
constexpr int64_t kBandRows = kBandColumns * kTileColumns / kTileRows;

// Tiles that reach the upper triangle, in bands of columns. A band's tiles above its own diagonal
// part come row by row, those of the diagonal part column by column.
struct Walk {
  int64_t columns;  // of tiles

  // Before the band, if it is not the last.
  __host__ __device__ static int64_t before(int64_t band) {
    return kBandColumns * kBandRows * band * (band - 1) / 2 +
           kBandColumns * (kBandColumns + 1) * band;
  }
  __host__ __device__ int64_t count() const {
    const int64_t bands = columns / kBandColumns, rest = columns % kBandColumns;
    return before(bands) + kBandRows * bands * rest + rest * (rest + 1);
  }
};

#ifdef GPTQB_HOPPER
struct Tile {
  int row = 0;     // first feature of its rows
  int column = 0;  // first feature of its columns
};

__device__ Tile tile_at(const Walk& walk, int64_t index) {
  int64_t band = 0;
  while ((band + 1) * kBandColumns <= walk.columns && Walk::before(band + 1) <= index) ++band;
  const int64_t width = min(kBandColumns, walk.columns - band * kBandColumns);
  int64_t rest = index - Walk::before(band);
  int64_t row, column;
  if (rest < band * kBandRows * width) {
    row = rest / width;
    column = rest % width;
  } else {
    rest -= band * kBandRows * width;
    column = 0;
    while ((column + 1) * (column + 2) <= rest) ++column;
    row = band * kBandRows + rest - column * (column + 1);
  }
  return {static_cast<int>(row) * kTileRows,
          static_cast<int>(band * kBandColumns + column) * kTileColumns};
}

struct Stages {
  unsigned char* memory;
  uint64_t* full;
  uint64_t* empty;
  int stage = 0;
  uint32_t parity = 0;

  __device__ unsigned char* box(int index) const {
    return memory + stage * kStageBytes + index * kBoxBytes;
  }
  __device__ void next() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1U;
  }
};

// Work of a block: (tile, run of tokens) for every gridDim.x-th pair, runs outside.
struct Work {
  const SecondMoments& problem;
  Walk walk;

  // Calls action(tile's number, tile, run, steps of kTokens).
  template <class Action>
  __device__ void for_each(const Action& action) const {
    const int64_t tiles = walk.count();
    const int64_t runs = (problem.tokens + problem.tokens_at_once - 1) / problem.tokens_at_once;
    for (int64_t work = blockIdx.x; work < tiles * runs; work += gridDim.x) {
      const int64_t run = work / tiles;
      const int64_t number = work - run * tiles;
      const int64_t tokens =
          min(problem.tokens_at_once, problem.tokens - run * problem.tokens_at_once);
      action(number, tile_at(walk, number), run,
             static_cast<int>((tokens + kTokens - 1) / kTokens));
    }
  }
};

__device__ void copy_tiles(const Work& work, const CUtensorMap& map, Stages stages) {
  work.for_each([&](int64_t, const Tile& tile, int64_t run, int steps) {
    const int token = static_cast<int>(run * work.problem.tokens_at_once);
    for (int step = 0; step < steps; ++step, stages.next()) {
      hopper::wait(stages.empty + stages.stage, stages.parity ^ 1U);
      uint64_t* const full = stages.full + stages.stage;
      hopper::arrive_expecting(full, kStageBytes);
      for (int box = 0; box < kRowBoxes; ++box)
        hopper::copy_box(stages.box(box), map, full, tile.row + box * kBox, token + step * kTokens);
      for (int box = 0; box < kColumnBoxes; ++box)
        hopper::copy_box(stages.box(kRowBoxes + box), map, full, tile.column + box * kBox,
                         token + step * kTokens);
    }
  });
}

__device__ inline void sync_multipliers() {
  asm volatile("bar.sync 1, %0;" ::"n"(kMultipliers * kWarpgroup) : "memory");
}
__device__ inline void add_two(float* to, float first, float second) {
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(first), "f"(second)
               : "memory");
}

// Adds the warpgroup's 64 x 256 sums to the result when the runs before this one have done so.
__device__ void add_sums(const Work& work, const float (&sums)[128], int64_t number,
                         const Tile& tile, int64_t run) {
  const SecondMoments& problem = work.problem;
  const int thread = static_cast<int>(threadIdx.x) - kWarpgroup;
  int32_t* const turn = problem.turns + number;
  if (run > 0) {
    if (thread == 0) {
      int32_t now;
      do {
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
      } while (now < run);
    }
    sync_multipliers();
  }
  const int lane = thread % 32;
  const int64_t row = tile.row + thread / 32 * 16 + lane / 4;
  const int64_t column = tile.column + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (row + 8 * half >= problem.features) continue;
    float* const to = problem.sum + (row + 8 * half) * problem.features + column;
#pragma unroll
    for (int j = 0; j < kTileColumns / 8; ++j)
      if (column + 8 * j < problem.features)
        add_two(to + 8 * j, sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]);
  }
  __threadfence();
  sync_multipliers();
  if (thread == 0) asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(turn) : "memory");
}

template <bool kFloat16>
__device__ void multiply_tiles(const Work& work, Stages stages) {
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
  const bool speaks = threadIdx.x % 32 == 0;
  work.for_each([&](int64_t number, const Tile& tile, int64_t run, int steps) {
    float sums[128];
    int before = 0;  // stage of the step before
    for (int step = 0; step < steps; ++step, stages.next()) {
      hopper::wait(stages.full + stages.stage, stages.parity);
      const uint64_t a = hopper::describe_transposed(stages.box(group), kBoxBytes);
      const uint64_t b = hopper::describe_transposed(stages.box(kRowBoxes), kBoxBytes);
      hopper::begin_products();
#pragma unroll
      for (int token = 0; token < kTokens; token += 16)
        hopper::multiply_64x256_transposed<kFloat16>(sums, hopper::rows_below(a, token),
                                                     hopper::rows_below(b, token),
                                                     step > 0 || token > 0);
      hopper::commit_products();
      // One stage of products stays under way; the one before is free to be filled again.
      if (step > 0) {
        hopper::wait_for_products<1>();
        if (speaks) hopper::arrive(stages.empty + before);
      }
      before = stages.stage;
    }
    hopper::wait_for_products<0>();
    if (speaks) hopper::arrive(stages.empty + before);
    add_sums(work, sums, number, tile, run);
  });
}

#endif  // GPTQB_HOPPER

template <bool kFloat16>
__global__ void __launch_bounds__(kThreads, 1)
    second_moments_kernel(const __grid_constant__ CUtensorMap map, SecondMoments problem) {
#ifdef GPTQB_HOPPER
  extern __shared__ unsigned char shared[];
  __shared__ uint64_t full[kStages], empty[kStages];
  const auto start = reinterpret_cast<uintptr_t>(shared);
  Stages stages{shared + (kAlignment - start % kAlignment) % kAlignment, full, empty};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      hopper::init_barrier(full + stage, 1);
      hopper::init_barrier(empty + stage, kMultipliers * kWarpgroup / 32);
    }
    hopper::publish_barriers();
  }
  __syncthreads();
  const Work work{problem, {(problem.features + kTileColumns - 1) / kTileColumns}};
  if (threadIdx.x < kWarpgroup) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) copy_tiles(work, map, stages);
  } else {
    hopper::take_registers<232>();
    multiply_tiles<kFloat16>(work, stages);
  }
#endif
}

// The driver's function, found at run time: the program does not link to the driver.
decltype(&cuTensorMapEncodeTiled) encode_tiled() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  GPTQB_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                              cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    throw Error("cuda", "expected a driver that knows cuTensorMapEncodeTiled, got an older one");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

CUtensorMap map_of(const SecondMoments& problem) {
  static const auto encode = encode_tiled();
  CUtensorMap map{};
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(problem.features),
                              static_cast<cuuint64_t>(problem.tokens)};
  const cuuint64_t row_bytes[] = {static_cast<cuuint64_t>(problem.features) * 2};
  const cuuint32_t box[] = {kBox, kTokens};
  const cuuint32_t steps[] = {1, 1};
  const auto type = problem.type == HalfType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                       : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const CUresult result =
      encode(&map, type, 2, const_cast<void*>(problem.x), sizes, row_bytes, box, steps,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Error("cuda", "expected cuTensorMapEncodeTiled to take [" +
                            std::to_string(problem.tokens) + ", " +
                            std::to_string(problem.features) + "], got its error " +
                            std::to_string(static_cast<int>(result)));
  return map;
}

int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  GPTQB_CUDA(cudaGetDevice(&device));
  GPTQB_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

}  // namespace

bool has_second_moments_cuda() {
  return attribute(cudaDevAttrComputeCapabilityMajor) == 9 &&
         attribute(cudaDevAttrComputeCapabilityMinor) == 0;
}

int64_t second_moments_tiles(int64_t features) {
  return Walk{(features + kTileColumns - 1) / kTileColumns}.count();
}

void second_moments_cuda(const SecondMoments& problem, void* stream) {
  const auto kernel = problem.type == HalfType::kFloat16 ? second_moments_kernel<true>
                                                         : second_moments_kernel<false>;
  GPTQB_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const CUtensorMap map = map_of(problem);
  // All blocks are resident, as they wait for each other.
  const int64_t runs = (problem.tokens + problem.tokens_at_once - 1) / problem.tokens_at_once;
  const auto blocks = std::min<int64_t>(attribute(cudaDevAttrMultiProcessorCount),
                                        second_moments_tiles(problem.features) * runs);
  kernel<<<static_cast<unsigned>(blocks), kThreads, kSharedBytes,
           static_cast<cudaStream_t>(stream)>>>(map, problem);
  check_cuda(cudaGetLastError(), "launch of second_moments_kernel");
}

}  // namespace gptqb::kernels
