// The kernel of `cuda_strips` (kernels/matmul_strips.h) for one width of codes.
//
// Tensor cores take the codes as they lie (kernels/device/tile_codes.cuh): subnormal float16
// numbers, exact products, float32 sums. With z the zero point and sums over the columns of a span,
//
//   y += scale * (sum of code * x - z * sum of x)
//
// where the sum of x is one more product of each warp, or the work of three others, once for all
// rows. So a weight costs a mask and its share of a product, and no width needs a conversion.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "kernels/device/half_vector.cuh"
#include "kernels/device/hopper.cuh"
#include "kernels/device/tile_codes.cuh"
#include "kernels/impl/by_format.h"
#include "kernels/launch_early.h"
#include "kernels/matmul_strips.h"
#include "kernels/tensor_map.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace strips {

constexpr int kRows = static_cast<int>(kTileRows);
constexpr int kColumns = static_cast<int>(kTileColumns);
constexpr int kSteps = kColumns / 16;
constexpr int kBoxColumns = 64;  // of activations
constexpr int kBoxAlignment = StripsPlan::kBoxAlignment;

// What the copy engine reads: codes [strips][blocks][a tile's words], scales and zero points
// [strips][spans][32], activations [64 columns each][tokens][64].
struct Maps {
  CUtensorMap codes, scales, zeros, x;
};

// Sums of activations: either each warp takes those that it needs, one more product for every two
// of codes, or three warps take them for all.
constexpr int kAdders = 3;
template <int kBits, int kEights>
constexpr bool kAddsItself = strips_add_themselves(kBits, kEights);
// Warps of a thread block: those that multiply, one that copies, those that add.
template <int kBits, int kEights, int kWarps>
constexpr int kThreads = 32 * (kWarps + 1 + (kAddsItself<kBits, kEights> ? 0 : kAdders));

template <int kBits, int kEights, int kSpan>
struct Place {
  static constexpr int kSpans = kSpan < kColumns ? kColumns / kSpan : 1;  // of a block, or less
  static constexpr int kDepth = strips_depth(kBits, kEights);
  static constexpr int kCodeBytes = static_cast<int>(tile_words(kBits) * 4);  // of a tile
  // A row of a box has at most 256 elements, of 8 bytes: codes of 8 bits come in two.
  static constexpr int kCodeRows = kCodeBytes > 2048 ? 2 : 1;
  static constexpr int kScaleBytes = kSpans * kRows * 2;
  static constexpr int kZeroBytes = kSpans * kRows;
  static constexpr int kTokens = 8 * kEights;
  static constexpr int kBoxBytes = kTokens * kBoxColumns * 2;
  // Sums of the activations of a block: [spans][tokens] float32.
  static constexpr int kInputSumBytes = kSpans * kTokens * 4;
};

// What a stage holds: activations in boxes of 64 columns, then codes, scales and zero points as
// [strips][blocks]; scales and zero points of groups of several blocks as [blocks][strips], each
// block at a multiple of 128 bytes.
struct Stage {
  int codes_at, scales_at, zeros_at;
  int next_scales, next_zeros;  // from one block to the next
  int bytes;                    // that arrive
};

// Blocks of columns that share scales.
template <int kSpan>
__host__ __device__ int blocks_of_span(const PackedShape& shape) {
  return kSpan < kColumns || shape.scale_span <= kColumns
             ? 1
             : static_cast<int>(shape.scale_span / kColumns);
}

__device__ inline int aligned(int bytes) {
  return (bytes + kBoxAlignment - 1) / kBoxAlignment * kBoxAlignment;
}
template <class Sizes>
__device__ Stage stage_of(const StripsPlan& plan, bool together, bool zeros) {
  const int blocks = plan.abreast * Sizes::kDepth;
  const int tiles = plan.strips * blocks;
  const auto next = [&](int bytes) { return together ? bytes : aligned(plan.strips * bytes); };
  Stage stage;
  stage.next_scales = next(Sizes::kScaleBytes);
  stage.next_zeros = next(Sizes::kZeroBytes);
  stage.codes_at = 2 * blocks * Sizes::kBoxBytes;
  stage.scales_at = stage.codes_at + tiles * Sizes::kCodeBytes;
  stage.zeros_at = aligned(stage.scales_at + (together ? tiles : blocks) * stage.next_scales);
  stage.bytes = stage.scales_at + tiles * (Sizes::kScaleBytes + (zeros ? Sizes::kZeroBytes : 0));
  return stage;
}

#ifdef GPTQB_HOPPER

// The first unit of a range, and the first past it is that of the next.
__device__ inline int first_unit(const StripsPlan& plan, int range) {
  return range * plan.range_units + min(range, plan.longer_ranges);
}

// By one thread.
template <int kBits, int kEights, int kSpan>
__device__ void copy_units(const Maps& maps, const StripsLaunch& launch, int first, int end,
                           char* stages, uint64_t* full, uint64_t* empty) {
  using Sizes = Place<kBits, kEights, kSpan>;
  const StripsPlan& plan = launch.plan;
  const PackedView& weight = launch.arguments.weight;
  const bool zeros = weight.zeros != nullptr;
  const int blocks = plan.abreast * Sizes::kDepth;
  const int blocks_a_span = blocks_of_span<kSpan>(weight.shape);
  const Stage stage = stage_of<Sizes>(plan, blocks_a_span == 1, zeros);
  // Blocks of one group: the scales of each come by themselves.
  const int scale_boxes = blocks_a_span > 1 ? blocks : 1;
  const auto rounds = static_cast<int>(plan.rounds);
  int tile = first / rounds;
  int round = first - tile * rounds;
  const auto copy_weights = [&](int slot) {
    char* const to = stages + slot * plan.stage_bytes;
    uint64_t* const barrier = full + slot;
    hopper::arrive_expecting(barrier, stage.bytes);
    const int block = round * blocks;
    const int strip = tile * plan.strips;
    hopper::copy_box(to + stage.codes_at, maps.codes, barrier, 0, block * Sizes::kCodeRows, strip);
    for (int i = 0; i < scale_boxes; ++i) {
      const int span = kSpan < kColumns ? block * Sizes::kSpans : (block + i) / blocks_a_span;
      hopper::copy_box(to + stage.scales_at + i * stage.next_scales, maps.scales, barrier, 0, span,
                       strip);
      if (zeros)
        hopper::copy_box(to + stage.zeros_at + i * stage.next_zeros, maps.zeros, barrier, 0, span,
                         strip);
    }
  };
  const auto copy_inputs = [&](int slot) {
    hopper::copy_box(stages + slot * plan.stage_bytes, maps.x, full + slot, 0, 0,
                     round * blocks * 2);
  };
  const auto next = [&] {
    if (++round < rounds) return;
    round = 0;
    ++tile;
  };
  // Weights are nobody's work; activations may be that of the kernel before.
  const int ahead = min(plan.stages, end - first);
  for (int slot = 0; slot < ahead; ++slot, next()) copy_weights(slot);
  wait_for_earlier_kernels();
  tile = first / rounds;
  round = first - tile * rounds;
  for (int slot = 0; slot < ahead; ++slot, next()) copy_inputs(slot);
  int slot = 0;
  uint32_t parity = 0;
  for (int unit = first + ahead; unit < end; ++unit, next()) {
    hopper::wait(empty + slot, parity);
    copy_weights(slot);
    copy_inputs(slot);
    if (++slot == plan.stages) {
      slot = 0;
      parity ^= 1;
    }
  }
}

// A value that the compiler is not to compute again.
__device__ inline int kept(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

constexpr float kUnit = 1.F / (1 << 24);  // of a code at position 0

// One strip by one block: 32 rows by 128 columns by 8 * kEights tokens. `totals` are in units of
// 2^-24. `scales` and `zeros` of this lane's first row; `inputs`: what it points at for
// activations; `input_sums` of its first two tokens.
template <int kBits, int kEights, int kSpan, bool kSymmetric>
__device__ inline void multiply_block(float (&totals)[2][kEights][4], const uint32_t* block,
                                      const __half* scales, const uint8_t* zeros, uint32_t inputs,
                                      const float2* input_sums, int lane) {
  using Codes = TileCodes<kBits>;
  using Sizes = Place<kBits, kEights, kSpan>;
  constexpr int kPositions = Codes::kPositions;
  constexpr int kSpanSteps = (kSpan < kColumns ? kSpan : kColumns) / 16;
  Codes codes[2];
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) codes[tile].load(block + tile * 32 * Codes::kWords, lane);

  float sums[kPositions][2][kEights][4] = {};
  // Of ones: two, so that no chain of products is longer than those of the codes.
  constexpr uint32_t kOnes[4] = {0x3C003C00U, 0x3C003C00U, 0x3C003C00U, 0x3C003C00U};
  constexpr bool kOwn = kAddsItself<kBits, kEights>;
  float own_sums[2][kEights][4] = {};
  float2 of_inputs[kEights];
  uint32_t b[kEights][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int span = step / kSpanSteps;
    if (step % 2 == 0)
#pragma unroll
      for (int e = 0; e < kEights; ++e)
        load_matrices(b[e],
                      (inputs ^ (step / 2 % 2 * 64)) + step / 4 * Sizes::kBoxBytes + e * 8 * 128);
    if (!kOwn && step % kSpanSteps == 0)
#pragma unroll
      for (int e = 0; e < kEights; ++e) {
        of_inputs[e] = input_sums[(span * kEights + e) * 4];
        if constexpr (!kSymmetric) continue;
        // All rows have the same zero point: sums begin with what it takes off.
        const int first = Codes::position_index(step);
        const float factor = -kUnit * static_cast<float>(1 << (kBits - 1 + Codes::position(first)));
#pragma unroll
        for (int tile = 0; tile < 2; ++tile)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            sums[first][tile][e][i] = factor * (i % 2 == 0 ? of_inputs[e].x : of_inputs[e].y);
      }
    const int b0 = step % 2 * 2;
    if (kOwn)
#pragma unroll
      for (int e = 0; e < kEights; ++e)
        multiply_add(own_sums[step % 2][e], kOnes, b[e][b0], b[e][b0 + 1]);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      uint32_t a[4];
      codes[tile].operand(step, a);
#pragma unroll
      for (int e = 0; e < kEights; ++e)
        multiply_add(sums[Codes::position_index(step)][tile][e], a, b[e][b0], b[e][b0 + 1]);
    }

    if ((step + 1) % kSpanSteps != 0) continue;
    // The span ends: its sums take their scale.
    if (kOwn)
#pragma unroll
      for (int e = 0; e < kEights; ++e) {
        float(&even)[4] = own_sums[0][e];
        float(&odd)[4] = own_sums[1][e];
        of_inputs[e] = {even[0] + odd[0], even[1] + odd[1]};
#pragma unroll
        for (int i = 0; i < 4; ++i) even[i] = odd[i] = 0;
      }
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int at = span * kRows + 16 * tile + 8 * lower;
        const float scale = __half2float(scales[at]);
        float offset = -kUnit * (1 << (kBits - 1));
        if constexpr (!kSymmetric) offset = -kUnit * static_cast<float>(zeros[at]);
#pragma unroll
        for (int e = 0; e < kEights; ++e)
#pragma unroll
          for (int token = 0; token < 2; ++token) {
            const int i = 2 * lower + token;
            // Sums of the positions, the first of which needs no factor.
            float sum = sums[0][tile][e][i];
            sums[0][tile][e][i] = 0;
#pragma unroll
            for (int p = 1; p < kPositions; ++p) {
              float& part = sums[p][tile][e][i];
              sum = __fmaf_rn(part, 1.F / static_cast<float>(1 << Codes::position(p)), sum);
              part = 0;
            }
            if (kOwn || !kSymmetric)
              sum = __fmaf_rn(offset, token == 0 ? of_inputs[e].x : of_inputs[e].y, sum);
            totals[tile][e][i] = __fmaf_rn(scale, sum, totals[tile][e][i]);
          }
      }
  }
}

// Sums of the activations of each span of a block, which tensor cores take as products with ones.
template <int kBits, int kEights, int kSpan>
__device__ inline void add_inputs(float2* sums, uint32_t inputs, int lane) {
  using Sizes = Place<kBits, kEights, kSpan>;
  constexpr int kSpanSteps = (kSpan < kColumns ? kSpan : kColumns) / 16;
  constexpr uint32_t kOnes[4] = {0x3C003C00U, 0x3C003C00U, 0x3C003C00U, 0x3C003C00U};
#pragma unroll
  for (int e = 0; e < kEights; ++e) {
    float parts[2][4] = {};
    uint32_t b[4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step % 2 == 0)
        load_matrices(b,
                      (inputs ^ (step / 2 % 2 * 64)) + step / 4 * Sizes::kBoxBytes + e * 8 * 128);
      multiply_add(parts[step % 2], kOnes, b[step % 2 * 2], b[step % 2 * 2 + 1]);
      if ((step + 1) % kSpanSteps != 0) continue;
      if (lane < 4)
        sums[(step / kSpanSteps * kEights + e) * 4 + lane] = {parts[0][0] + parts[1][0],
                                                              parts[0][1] + parts[1][1]};
#pragma unroll
      for (int i = 0; i < 4; ++i) parts[0][i] = parts[1][i] = 0;
    }
  }
}

// What a lane points at for the activations of a stage's first block.
__device__ inline uint32_t lane_inputs(const char* stages, int lane) {
  return hopper::shared_address(stages) + lane % 8 * 128 + (lane / 8 ^ lane % 8) * 16;
}

// Of one of the warps that add up activations: it takes every third block.
template <int kBits, int kEights, int kSpan>
__device__ void add_units(const StripsPlan& plan, int units, char* stages, float2* input_sums,
                          uint64_t* full, uint64_t* ready, uint64_t* empty, int adder, int lane) {
  using Sizes = Place<kBits, kEights, kSpan>;
  const int blocks = plan.abreast * Sizes::kDepth;
  const uint32_t inputs = lane_inputs(stages, lane);
  int slot = 0;
  uint32_t parity = 0;
  int turn = adder;  // the next block of this warp, counted from the unit's first
  for (int unit = 0; unit < units; ++unit) {
    hopper::wait(full + slot, parity);
    // Over before these copies began; so that the sums' readers are seen to be done.
    hopper::wait(empty + slot, parity ^ 1);
    for (; turn < blocks; turn += kAdders)
      add_inputs<kBits, kEights, kSpan>(
          input_sums + (slot * blocks + turn) * (Sizes::kInputSumBytes / 8),
          inputs + static_cast<uint32_t>(slot * plan.stage_bytes + 2 * turn * Sizes::kBoxBytes),
          lane);
    turn -= blocks;
    hopper::arrive(ready + slot);
    if (++slot == plan.stages) {
      slot = 0;
      parity ^= 1;
    }
  }
}

// Of the warps that share a strip.
__device__ inline void sync_strip(int strip, int warps) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + strip), "r"(32 * warps) : "memory");
}

__device__ inline void raise(uint32_t* flag) {
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}
// Waits for it and takes it down.
__device__ inline void take_down(uint32_t* flag) {
  uint32_t raised = 0;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(raised) : "l"(flag) : "memory");
  } while (raised == 0);
  *flag = 0;
}

__device__ inline void add(float (&totals)[4], const float4& other) {
  totals[0] += other.x;
  totals[1] += other.y;
  totals[2] += other.z;
  totals[3] += other.w;
}
__device__ inline float4 four(const float (&totals)[4]) {
  return {totals[0], totals[1], totals[2], totals[3]};
}

// Adds up the totals of the warps that share a strip; those of the first one are then all of them.
// `sums`: [warps][2 * kEights][32 lanes].
template <int kEights>
__device__ void add_abreast(float (&totals)[2][kEights][4], float4* sums, int strip, int place,
                            int abreast, int lane) {
  sync_strip(strip, abreast);  // the sums of the tile before are read
  float4* const of_strip = sums + strip * abreast * 2 * kEights * 32 + lane;
#pragma unroll
  for (int i = 0; i < 2 * kEights; ++i)
    if (place > 0)
      of_strip[(place * 2 * kEights + i) * 32] = four(totals[i / kEights][i % kEights]);
  sync_strip(strip, abreast);
  if (place > 0) return;
#pragma unroll 3
  for (int other = 1; other < abreast; ++other)
#pragma unroll
    for (int i = 0; i < 2 * kEights; ++i)
      add(totals[i / kEights][i % kEights], of_strip[(other * 2 * kEights + i) * 32]);
}

// Where a range leaves the sums of a strip of the tile of rows that it did not begin.
template <int kEights>
__device__ float4* left_sums(const StripsLaunch& launch, int range, int strip) {
  return reinterpret_cast<float4*>(scratch_of(launch.arguments) + launch.plan.sums_at) +
         (range * launch.plan.strips + strip) * 2 * kEights * 32;
}
__device__ inline uint32_t* flag_of(const StripsLaunch& launch, int range, int strip) {
  return static_cast<uint32_t*>(launch.arguments.workspace) + range * launch.plan.strips + strip;
}

// Adds the sums that ranges after `range` left for the strip, up to the end of the tile.
template <int kEights>
__device__ void add_left_sums(float (&totals)[2][kEights][4], const StripsLaunch& launch, int range,
                              int end_unit, int strip, int lane) {
  const StripsPlan& plan = launch.plan;
  int end = range + 1;
  while (end < plan.ranges && first_unit(plan, end) < end_unit) ++end;
  for (int other = range + 1 + lane; other < end; other += 32)
    take_down(flag_of(launch, other, strip));
  __syncwarp();
#pragma unroll 2
  for (int other = range + 1; other < end; ++other)
#pragma unroll
    for (int i = 0; i < 2 * kEights; ++i)
      add(totals[i / kEights][i % kEights],
          __ldcg(left_sums<kEights>(launch, other, strip) + i * 32 + lane));
}

// Totals to y: this lane's rows are lane / 4 + 0, 8, 16, 24 of the strip, its tokens lane % 4 * 2
// and the next of each 8.
template <int kEights, class T>
__device__ void store_strip(const float (&totals)[2][kEights][4], const StripsLaunch& launch,
                            int64_t first_row, int lane) {
  const MatmulArguments& arguments = launch.arguments;
  const int64_t rows = arguments.weight.shape.rows;
  const auto* const factors = reinterpret_cast<const float*>(scratch_of(arguments));
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int64_t row = first_row + 8 * r + lane / 4;
    if (row >= rows) continue;
    const float bias =
        arguments.bias == nullptr ? 0 : widen(static_cast<const T*>(arguments.bias)[row]);
#pragma unroll
    for (int e = 0; e < kEights; ++e)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 8 * e + lane % 4 * 2 + i;
        if (token >= arguments.m) continue;
        float sum = totals[r / 2][e][r % 2 * 2 + i] * static_cast<float>(1 << 24);
        if constexpr (std::is_same_v<T, __nv_bfloat16>) sum *= factors[token];
        static_cast<T*>(arguments.y)[token * rows + row] = rounded<T>(sum + bias);
      }
  }
}

#endif  // GPTQB_HOPPER

template <int kBits, int kEights, int kSpan, bool kSymmetric, int kWarps>
__global__ void __launch_bounds__(kThreads<kBits, kEights, kWarps>, strips_at_once(kWarps))
    matmul_strips_kernel(const __grid_constant__ Maps maps,
                         const __grid_constant__ StripsLaunch launch) {
#ifdef GPTQB_HOPPER
  using Sizes = Place<kBits, kEights, kSpan>;
  constexpr bool kOwn = kAddsItself<kBits, kEights>;
  extern __shared__ char memory[];
  const StripsPlan& plan = launch.plan;
  const PackedShape& shape = launch.arguments.weight.shape;
  char* const stages = memory + (1024 - hopper::shared_address(memory) % 1024) % 1024;
  auto* const sums = reinterpret_cast<float4*>(stages + plan.stages * plan.stage_bytes);
  auto* const full = reinterpret_cast<uint64_t*>(
      sums + (plan.abreast > 1 ? plan.strips * plan.abreast * 2 * kEights * 32 : 0));
  auto* const ready = full + StripsPlan::kMaxStages;
  auto* const empty = ready + StripsPlan::kMaxStages;
  auto* const input_sums = reinterpret_cast<float2*>(empty + StripsPlan::kMaxStages);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int multipliers = plan.strips * plan.abreast;
  // The next kernel in the stream may begin to copy its weights.
  let_next_begin();
  if (threadIdx.x == 32 * kWarps) {
    for (int slot = 0; slot < plan.stages; ++slot) {
      hopper::init_barrier(full + slot, 1);
      hopper::init_barrier(ready + slot, 32 * kAdders);
      hopper::init_barrier(empty + slot, multipliers);
    }
    hopper::publish_barriers();
  }
  __syncthreads();
  // Blocks start in order: one that waits for others' sums starts after them.
  const int range = plan.ranges - 1 - static_cast<int>(blockIdx.x);
  const int first = first_unit(plan, range);
  const int end = min(first_unit(plan, range + 1), static_cast<int>(plan.units()));
  if (warp >= kWarps) {
    if constexpr (!kOwn) hopper::give_registers<40>();
    if (warp > kWarps)
      add_units<kBits, kEights, kSpan>(plan, end - first, stages, input_sums, full, ready, empty,
                                       warp - kWarps - 1, lane);
    else if (lane == 0)
      copy_units<kBits, kEights, kSpan>(maps, launch, first, end, stages, full, empty);
    return;
  }
  if constexpr (!kOwn) hopper::take_registers<104>();
  if (warp >= multipliers) return;
  wait_for_earlier_kernels();

  const bool together = blocks_of_span<kSpan>(shape) == 1;
  const Stage stage = stage_of<Sizes>(plan, together, !kSymmetric);
  constexpr int kDepth = Sizes::kDepth;
  const int strip = warp / plan.abreast;
  const int place = warp - strip * plan.abreast;
  const int blocks = plan.abreast * kDepth;  // of a stage
  const int first_block = place * kDepth;    // of this warp
  const int first_tile = strip * blocks + first_block;
  // Where this warp's part of a stage lies, and what this lane points at for activations.
  const int codes = kept(stage.codes_at + first_tile * Sizes::kCodeBytes);
  const int scales =
      kept(stage.scales_at + lane / 4 * 2 +
           (together ? first_tile * Sizes::kScaleBytes
                     : first_block * stage.next_scales + strip * Sizes::kScaleBytes));
  const int zeros = kept(stage.zeros_at + lane / 4 +
                         (together ? first_tile * Sizes::kZeroBytes
                                   : first_block * stage.next_zeros + strip * Sizes::kZeroBytes));
  const auto inputs = static_cast<uint32_t>(
      kept(static_cast<int>(lane_inputs(stages, lane)) + 2 * first_block * Sizes::kBoxBytes));
  const float2* const inputs_summed =
      input_sums + first_block * (Sizes::kInputSumBytes / 8) + lane % 4;
  const auto stage_bytes = static_cast<int>(plan.stage_bytes);
  const auto rounds = static_cast<int>(plan.rounds);
  int tile = first / rounds;
  int round = first - tile * rounds;
  bool begins = round == 0;
  int slot = 0;
  int slot_at = 0;
  uint32_t parity = 0;
  float totals[2][kEights][4] = {};
  for (int unit = first; unit < end; ++unit) {
    hopper::wait(full + slot, parity);
    if constexpr (!kOwn) hopper::wait(ready + slot, parity);
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const char* const held = stages + slot_at;
      multiply_block<kBits, kEights, kSpan, kSymmetric>(
          totals, reinterpret_cast<const uint32_t*>(held + codes + d * Sizes::kCodeBytes),
          reinterpret_cast<const __half*>(held + scales + d * stage.next_scales),
          reinterpret_cast<const uint8_t*>(held + zeros + d * stage.next_zeros),
          inputs + slot_at + 2 * d * Sizes::kBoxBytes,
          inputs_summed + (slot * blocks + d) * (Sizes::kInputSumBytes / 8), lane);
    }
    __syncwarp();
    if (lane == 0) hopper::arrive(empty + slot);
    slot_at += stage_bytes;
    if (++slot == plan.stages) {
      slot = 0;
      slot_at = 0;
      parity ^= 1;
    }
    const bool ends = ++round == rounds;
    if (!ends && unit + 1 < end) continue;

    if (plan.abreast > 1) add_abreast<kEights>(totals, sums, strip, place, plan.abreast, lane);
    if (place == 0 && !begins) {
      float4* const left = left_sums<kEights>(launch, range, strip) + lane;
#pragma unroll
      for (int i = 0; i < 2 * kEights; ++i) left[i * 32] = four(totals[i / kEights][i % kEights]);
      __syncwarp();
      if (lane == 0) raise(flag_of(launch, range, strip));
    } else if (place == 0) {
      if (!ends) add_left_sums<kEights>(totals, launch, range, (tile + 1) * rounds, strip, lane);
      const int64_t row = (static_cast<int64_t>(tile) * plan.strips + strip) * kRows;
      if (launch.arguments.type == HalfType::kFloat16)
        store_strip<kEights, __half>(totals, launch, row, lane);
      else
        store_strip<kEights, __nv_bfloat16>(totals, launch, row, lane);
    }
#pragma unroll
    for (int i = 0; i < 2 * kEights; ++i)
#pragma unroll
      for (float& total : totals[i / kEights][i % kEights]) total = 0;
    begins = true;
    round = 0;
    ++tile;
  }
#else
  __trap();  // its launch says no
#endif
}

template <int kBits, int kEights, int kSpan, int kWarps>
void launch_kernel(const StripsLaunch& launch, cudaStream_t stream) {
  using Sizes = Place<kBits, kEights, kSpan>;
  const MatmulArguments& arguments = launch.arguments;
  const PackedView& weight = arguments.weight;
  const StripsPlan& plan = launch.plan;
  const int64_t strips = weight.shape.packed_rows / kTileRows;
  const int64_t blocks = weight.shape.packed_columns / kTileColumns;
  const int64_t spans = weight.shape.scale_spans();
  const int stage_blocks = plan.abreast * strips_depth(kBits, kEights);
  const int scale_blocks = blocks_of_span<kSpan>(weight.shape) > 1 ? 1 : stage_blocks;
  constexpr int kCodeRowBytes = Sizes::kCodeBytes / Sizes::kCodeRows;
  Maps maps{};
  maps.codes = tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_INT64, weight.codes,
                             {kCodeRowBytes / 8, blocks * Sizes::kCodeRows, strips},
                             {kCodeRowBytes, blocks * Sizes::kCodeBytes},
                             {kCodeRowBytes / 8, stage_blocks * Sizes::kCodeRows, plan.strips},
                             CU_TENSOR_MAP_SWIZZLE_NONE);
  maps.scales =
      tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_UINT16, weight.scales, {kTileRows, spans, strips},
                    {kTileRows * 2, spans * kTileRows * 2},
                    {kRows, scale_blocks * Sizes::kSpans, plan.strips}, CU_TENSOR_MAP_SWIZZLE_NONE);
  if (weight.zeros != nullptr)
    maps.zeros = tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_UINT8, weight.zeros,
                               {kTileRows, spans, strips}, {kTileRows, spans * kTileRows},
                               {kRows, scale_blocks * Sizes::kSpans, plan.strips},
                               CU_TENSOR_MAP_SWIZZLE_NONE);
  const void* const x = plan.prepares ? scratch_of(arguments) + plan.inputs_at : arguments.x;
  const int64_t columns = plan.prepares ? weight.shape.packed_columns : weight.shape.columns;
  maps.x = tensor_map<3>(
      CU_TENSOR_MAP_DATA_TYPE_FLOAT16, x, {kBoxColumns, arguments.m, columns / kBoxColumns},
      {columns * 2, kBoxColumns * 2}, {kBoxColumns, Sizes::kTokens, 2 * stage_blocks},
      CU_TENSOR_MAP_SWIZZLE_128B);
  const auto kernel = weight.zeros == nullptr
                          ? matmul_strips_kernel<kBits, kEights, kSpan, true, kWarps>
                          : matmul_strips_kernel<kBits, kEights, kSpan, false, kWarps>;
  launch_early(kernel, plan.ranges, kThreads<kBits, kEights, kWarps>, plan.shared_bytes,
               /*early=*/true, stream, maps, launch);
}

template <int kBits, int kEights, int kWarps>
void launch_span(const StripsLaunch& launch, cudaStream_t stream) {
  by_span(launch.arguments.weight.shape.scale_span, [&](auto span) {
    launch_kernel<kBits, kEights, decltype(span)::value, kWarps>(launch, stream);
  });
}

}  // namespace strips

// In matmul_strips_cuda.cu: activations as float16 in packed order.
void prepare_inputs_cuda(const StripsLaunch& launch, void* stream);

template <int kBits>
void launch_strips(const StripsLaunch& launch, void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  if (launch.plan.prepares) prepare_inputs_cuda(launch, stream);
  if (launch.plan.eights == 2) return strips::launch_span<kBits, 2, 16>(launch, queue);
  if constexpr (strips_add_themselves(kBits, 1))
    if (launch.plan.warps == 8) return strips::launch_span<kBits, 1, 8>(launch, queue);
  strips::launch_span<kBits, 1, 16>(launch, queue);
}

}  // namespace gptqb::kernels
