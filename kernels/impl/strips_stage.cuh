// Stages of `cuda_strips` (kernels/matmul_strips.h): what one holds, and the thread that fills
// them.
#pragma once

#include "kernels/device/hopper.cuh"
#include "kernels/launch_early.h"
#include "kernels/matmul_strips.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels::strips {

constexpr int kRows = static_cast<int>(kTileRows);
constexpr int kColumns = static_cast<int>(kTileColumns);
constexpr int kBoxColumns = 64;  // of activations
constexpr int kBoxAlignment = StripsPlan::kBoxAlignment;

// What the copy engine reads: codes [strips][blocks][a tile's words], scales and zero points
// [strips][blocks][those of a tile], or of a group of several blocks; activations [64 columns
// each][tokens][64]. Rows as long as they lie in memory: short ones are slow.
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
  // Sums of the activations of a block: [spans][tokens] float32.
  static constexpr int kInputSumBytes = kSpans * kTokens * 4;
};

// What a stage holds: activations in boxes of 64 columns, then codes, scales and zero points as
// [strips][blocks]. Scales and zero points of groups of several blocks come as [boxes][strips],
// each box at a multiple of 128 bytes: one for all blocks of a stage if they always are of one
// group, for small boxes are slow to copy; else one for each block.
struct Stage {
  int codes_at, scales_at, zeros_at;
  int next_scales, next_zeros;  // from one block to the next
  int scale_boxes;
  int bytes;  // that arrive
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
template <int kBits, int kEights, int kSpan>
__device__ Stage stage_of(const StripsPlan& plan, const PackedShape& shape, bool zeros) {
  using Sizes = Place<kBits, kEights, kSpan>;
  const int blocks = plan.abreast * Sizes::kDepth;
  const int tiles = plan.strips * blocks;
  const int blocks_a_span = blocks_of_span<kSpan>(shape);
  const bool together = blocks_a_span == 1;
  const bool one_group = !together && (blocks_a_span % blocks == 0 || shape.scale_spans() == 1);
  const auto next = [&](int bytes) {
    return together ? bytes : one_group ? 0 : aligned(plan.strips * bytes);
  };
  Stage stage;
  stage.scale_boxes = together || one_group ? 1 : blocks;
  stage.next_scales = next(Sizes::kScaleBytes);
  stage.next_zeros = next(Sizes::kZeroBytes);
  stage.codes_at = 2 * blocks * plan.box_bytes;
  stage.scales_at = stage.codes_at + tiles * Sizes::kCodeBytes;
  const int scales = one_group ? plan.strips : tiles;  // in tiles' worth
  stage.zeros_at = aligned(stage.scales_at + (together    ? scales * Sizes::kScaleBytes
                                              : one_group ? aligned(scales * Sizes::kScaleBytes)
                                                          : blocks * stage.next_scales));
  stage.bytes = stage.scales_at + scales * (Sizes::kScaleBytes + (zeros ? Sizes::kZeroBytes : 0));
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
  const Stage stage = stage_of<kBits, kEights, kSpan>(plan, weight.shape, zeros);
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
    for (int i = 0; i < stage.scale_boxes; ++i) {
      const int row = (block + i) / blocks_a_span;
      hopper::copy_box(to + stage.scales_at + i * stage.next_scales, maps.scales, barrier, 0, row,
                       strip);
      if (zeros)
        hopper::copy_box(to + stage.zeros_at + i * stage.next_zeros, maps.zeros, barrier, 0, row,
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

#endif  // GPTQB_HOPPER

}  // namespace gptqb::kernels::strips
