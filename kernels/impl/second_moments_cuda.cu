// Two blocks, one a multiprocessor, take tile after tile of 256 x 256 sums, each half of its rows:
// a warp of copies keeps stages of shared memory full, two warpgroups multiply, 64 x 256 sums each
// in registers. What both blocks need is copied once. Tiles that lie together run together, so that
// they find each other's inputs in the L2 cache.
#include <cuda.h>

#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/device/hopper.cuh"
#include "kernels/hopper_build.h"
#include "kernels/second_moments.h"
#include "kernels/tensor_map.h"

namespace gptqb::kernels {
namespace {

constexpr int kBlocks = 2;  // of a cluster
constexpr int kTile = 256;
constexpr int kRows = kTile / kBlocks;  // of a block
constexpr int kTokens = 64;             // of a stage
constexpr int kBox = 64;                // features of a box
constexpr int kBoxBytes = kTokens * kBox * 2;
constexpr int kRowBoxes = kRows / kBox;
constexpr int kColumnBoxes = kTile / kBox;
constexpr int kStageBytes = (kRowBoxes + kColumnBoxes) * kBoxBytes;
constexpr int kStages = 4;
constexpr int kWarpgroup = 128;
constexpr int kMultipliers = 2;  // warpgroups
constexpr int kThreads = (1 + kMultipliers) * kWarpgroup;
[[maybe_unused]] constexpr int kPaceSteps = 8;
constexpr int kAlignment = 1024;  // of swizzled boxes
constexpr int kSharedBytes = kStages * kStageBytes + kAlignment;
constexpr int kTileElements = kTile * kTile;
// Columns of tiles that are walked together.
constexpr int64_t kBand = 8;

// Who computes what: a cluster takes whole tiles over all tokens, as many as come out even; what is
// left of the tiles is split by tokens, and the splits' sums are added up at the end.
struct Plan {
  int64_t side = 0;    // tiles of a row of tiles; those of the upper triangle count
  int64_t tiles = 0;   // of the upper triangle
  int64_t whole = 0;   // the first tiles
  int64_t splits = 0;  // of each other tile
  int64_t split_tokens = 0;

  __host__ __device__ int64_t units() const { return whole + (tiles - whole) * splits; }
};

// The walk through the tiles of the upper triangle: in bands of columns, each row by row above its
// diagonal part, then column by column.
struct Tile {
  int row = 0;
  int column = 0;
};

__device__ Tile tile_at(const Plan& plan, int64_t index) {
  int64_t band = 0;
  // Tiles before a band that follows whole ones.
  const auto before = [](int64_t band) {
    return kBand * kBand * band * (band - 1) / 2 + kBand * (kBand + 1) / 2 * band;
  };
  while ((band + 1) * kBand <= plan.side && before(band + 1) <= index) ++band;
  const int64_t width = min(kBand, plan.side - band * kBand);
  const int64_t above = band * kBand * width;
  int64_t rest = index - before(band);
  int64_t row, column;
  if (rest < above) {
    row = rest / width;
    column = rest % width;
  } else {
    rest -= above;
    column = 0;
    while ((column + 1) * (column + 2) / 2 <= rest) ++column;
    row = band * kBand + rest - column * (column + 1) / 2;
  }
  return {static_cast<int>(row), static_cast<int>(band * kBand + column)};
}

#ifdef GPTQB_HOPPER
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

// What a block does of a unit.
struct Part {
  int row = 0;     // first feature of its rows
  int column = 0;  // first feature of its columns
  int64_t token = 0;
  int64_t tokens = 0;
  float* split = nullptr;  // where the sums of a split tile go, rows of kTile
};

struct Work {
  const SecondMoments& problem;
  const Plan& plan;
  int block;  // within the cluster

  // Calls action(part) for every unit of the cluster.
  template <class Action>
  __device__ void for_each(const Action& action) const {
    for (int64_t unit = blockIdx.x / kBlocks; unit < plan.units(); unit += gridDim.x / kBlocks) {
      const int64_t split = unit - plan.whole;
      const Tile tile = tile_at(plan, split < 0 ? unit : plan.whole + split / plan.splits);
      Part part{tile.row * kTile + block * kRows, tile.column * kTile, 0, problem.tokens};
      if (split >= 0) {
        part.token = split % plan.splits * plan.split_tokens;
        part.tokens = min(plan.split_tokens, problem.tokens - part.token);
        part.split = problem.workspace + split * kTileElements + block * kRows * kTile;
      }
      action(part);
    }
  }
};

__device__ inline int steps_of(int64_t tokens) {
  return static_cast<int>((tokens + kTokens - 1) / kTokens);
}

// Keeps clusters that read the same inputs near each other in time, so that these are still in the
// L2 cache for the last one. Only a matter of time: nobody waits longer than a few microseconds.
class Pace {
 public:
  __device__ Pace(int32_t* steps, int clusters) : steps_(steps), clusters_(clusters) {}

  // A run of kPaceSteps begins.
  __device__ void begin_run() {
    add(1);
    const int64_t all = ++runs_ * clusters_;
    for (int i = 0; i < kPatience && now() < all - kAhead * clusters_; ++i) __nanosleep(64);
  }
  // This cluster is done: from now on nobody waits.
  __device__ void leave() { add(kNever); }

 private:
  static constexpr int64_t kAhead = 1;  // runs that a cluster may be ahead of the average
  static constexpr int kPatience = 64;
  static constexpr int32_t kNever = 1 << 24;

  __device__ void add(int32_t count) {
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(steps_), "r"(count) : "memory");
  }
  __device__ int32_t now() const {
    int32_t value;
    asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(steps_) : "memory");
    return value;
  }

  int32_t* steps_;
  int64_t clusters_;
  int64_t runs_ = 0;
};

__device__ void copy_inputs(const Work& work, const CUtensorMap& map, Stages stages) {
  constexpr int kShare = kColumnBoxes / kBlocks;
  Pace pace(work.problem.pace, static_cast<int>(gridDim.x) / kBlocks);
  const bool paced = work.block == 0;
  work.for_each([&](const Part& part) {
    const int steps = steps_of(part.tokens);
    for (int step = 0; step < steps; ++step, stages.next()) {
      if (paced && step % kPaceSteps == 0) pace.begin_run();
      hopper::wait(stages.empty + stages.stage, stages.parity ^ 1U);
      uint64_t* const full = stages.full + stages.stage;
      const int token = static_cast<int>(part.token) + step * kTokens;
      hopper::arrive_expecting(full, kStageBytes);
      for (int box = 0; box < kRowBoxes; ++box)
        hopper::copy_box(stages.box(box), map, full, part.row + box * kBox, token);
      for (int box = work.block * kShare; box < (work.block + 1) * kShare; ++box)
        hopper::copy_box_to((1U << kBlocks) - 1, stages.box(kRowBoxes + box), map, full,
                            part.column + box * kBox, token);
    }
  });
  if (paced) pace.leave();
}

__device__ inline void add_two(float* to, float first, float second) {
  asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(first), "f"(second)
               : "memory");
}

// Adds the warpgroup's 64 x 256 sums to the result, or to those of the split, which they begin if
// they are its first. A thread always adds to the same places, in the order of tokens.
__device__ void add_sums(const SecondMoments& problem, const float (&sums)[128], const Part& part,
                         bool first) {
  const int thread = static_cast<int>(threadIdx.x) - kWarpgroup;
  const int row = thread / 32 * 16 + thread % 32 / 4;
  const int column = thread % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int at = row + 8 * half;
    if (part.split != nullptr) {
      float* const to = part.split + at * kTile + column;
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j) {
        const float2 two = {sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]};
        if (first)
          *reinterpret_cast<float2*>(to + 8 * j) = two;
        else
          add_two(to + 8 * j, two.x, two.y);
      }
    } else if (part.row + at < problem.features) {
      float* const to = problem.sum + (part.row + at) * problem.features + part.column + column;
#pragma unroll
      for (int j = 0; j < kTile / 8; ++j)
        if (part.column + column + 8 * j < problem.features)
          add_two(to + 8 * j, sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]);
    }
  }
}

template <bool kFloat16>
__device__ void multiply(const Work& work, Stages stages) {
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
  // A stage is filled for both blocks by both.
  const auto free = [&](int stage) {
    if (threadIdx.x % 32 < kBlocks) hopper::arrive_in(stages.empty + stage, threadIdx.x % 32);
  };
  const int run = steps_of(work.problem.tokens_at_once);
  work.for_each([&](const Part& part) {
    const int steps = steps_of(part.tokens);
    for (int begin = 0; begin < steps; begin += run) {
      const int end = min(begin + run, steps);
      float sums[128];
      int before = 0;  // stage of the step before
      for (int step = begin; step < end; ++step, stages.next()) {
        hopper::wait(stages.full + stages.stage, stages.parity);
        const uint64_t a = hopper::describe_transposed(stages.box(group), kBoxBytes);
        const uint64_t b = hopper::describe_transposed(stages.box(kRowBoxes), kBoxBytes);
        hopper::begin_products();
#pragma unroll
        for (int token = 0; token < kTokens; token += 16)
          hopper::multiply_64x256_transposed<kFloat16>(sums, hopper::rows_below(a, token),
                                                       hopper::rows_below(b, token),
                                                       step > begin || token > 0);
        hopper::commit_products();
        // One stage of products stays under way; the one before is free to be filled again.
        if (step > begin) {
          hopper::wait_for_products<1>();
          free(before);
        }
        before = stages.stage;
      }
      hopper::wait_for_products<0>();
      free(before);
      add_sums(work.problem, sums, part, begin == 0);
    }
  });
}
#endif  // GPTQB_HOPPER

template <bool kFloat16>
__global__ void __launch_bounds__(kThreads, 1) __cluster_dims__(kBlocks)
    second_moments_kernel(const __grid_constant__ CUtensorMap map, SecondMoments problem,
                          Plan plan) {
#ifdef GPTQB_HOPPER
  extern __shared__ unsigned char shared[];
  __shared__ uint64_t full[kStages], empty[kStages];
  const auto start = reinterpret_cast<uintptr_t>(shared);
  Stages stages{shared + (kAlignment - start % kAlignment) % kAlignment, full, empty};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      hopper::init_barrier(full + stage, 1);
      hopper::init_barrier(empty + stage, kBlocks * kMultipliers * kWarpgroup / 32);
    }
    hopper::publish_barriers();
  }
  hopper::sync_cluster();
  const Work work{problem, plan, static_cast<int>(blockIdx.x % kBlocks)};
  if (threadIdx.x < kWarpgroup) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) copy_inputs(work, map, stages);
    __syncwarp();
  } else {
    hopper::take_registers<232>();
    multiply<kFloat16>(work, stages);
  }
  // No block leaves while the other still writes to its memory.
  hopper::sync_cluster();
#else
  __trap();  // has_second_moments_cuda() says no
#endif
}

// sum += the splits of a tile, a row of it a block.
__global__ void __launch_bounds__(kTile) add_splits_kernel(SecondMoments problem, Plan plan) {
  const int64_t number = blockIdx.x / kTile;
  const Tile tile = tile_at(plan, plan.whole + number);
  const int64_t within = blockIdx.x % kTile;
  const int64_t row = tile.row * kTile + within;
  const int64_t column = tile.column * kTile + threadIdx.x;
  if (row >= problem.features || column >= problem.features) return;
  const float* const first =
      problem.workspace + number * plan.splits * kTileElements + within * kTile + threadIdx.x;
  float sum = problem.sum[row * problem.features + column];
  for (int64_t split = 0; split < plan.splits; ++split) sum += first[split * kTileElements];
  problem.sum[row * problem.features + column] = sum;
}

int64_t clusters() { return cuda_attribute(cudaDevAttrMultiProcessorCount) / kBlocks; }

// Whole tiles for full rounds of all clusters; the others in as many splits as leave the fewest
// clusters idle, of whole sums of tokens_at_once.
Plan plan_of(int64_t tokens, int64_t features, int64_t tokens_at_once) {
  Plan plan;
  plan.side = (features + kTile - 1) / kTile;
  plan.tiles = plan.side * (plan.side + 1) / 2;
  plan.whole = plan.tiles / clusters() * clusters();
  const int64_t left = plan.tiles - plan.whole;
  const int64_t sums = (tokens + tokens_at_once - 1) / tokens_at_once;
  const auto rounds = [&](int64_t units) { return (units + clusters() - 1) / clusters(); };
  int64_t shortest = 0;
  for (int64_t splits = 1; splits <= sums && left * splits <= 2 * clusters(); ++splits) {
    const int64_t each = (sums + splits - 1) / splits;
    const int64_t time = rounds(left * splits) * each;
    if (plan.splits > 0 && time >= shortest) continue;
    shortest = time;
    plan.split_tokens = each * tokens_at_once;
    plan.splits = (sums + each - 1) / each;
  }
  return plan;
}

}  // namespace

bool has_second_moments_cuda() {
  return kHopperBuild && cuda_attribute(cudaDevAttrComputeCapabilityMajor) == 9 &&
         cuda_attribute(cudaDevAttrComputeCapabilityMinor) == 0;
}

int64_t second_moments_workspace(int64_t tokens, int64_t features, int64_t tokens_at_once) {
  const Plan plan = plan_of(tokens, features, tokens_at_once);
  return (plan.tiles - plan.whole) * plan.splits * kTileElements;
}

void second_moments_cuda(const SecondMoments& problem, void* stream) {
  const auto kernel = problem.type == HalfType::kFloat16 ? second_moments_kernel<true>
                                                         : second_moments_kernel<false>;
  GPTQB_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const CUtensorMap map =
      swizzled_map(problem.type, problem.x, problem.tokens, problem.features, kTokens);
  const Plan plan = plan_of(problem.tokens, problem.features, problem.tokens_at_once);
  const auto blocks = static_cast<unsigned>(std::min(clusters(), plan.units()) * kBlocks);
  const auto on = static_cast<cudaStream_t>(stream);
  GPTQB_CUDA(cudaMemsetAsync(problem.pace, 0, sizeof *problem.pace, on));
  kernel<<<blocks, kThreads, kSharedBytes, on>>>(map, problem, plan);
  GPTQB_CUDA_LAUNCHED("second_moments_kernel");
  const auto rows = static_cast<unsigned>((plan.tiles - plan.whole) * kTile);
  if (rows == 0) return;
  add_splits_kernel<<<rows, kTile, 0, on>>>(problem, plan);
  GPTQB_CUDA_LAUNCHED("add_splits_kernel");
}

}  // namespace gptqb::kernels
