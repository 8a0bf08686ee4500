#include "kernels/matmul_strips.h"

#include <algorithm>
#include <initializer_list>

#include "common/round_up.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr int64_t kAlignment = StripsPlan::kStageAlignment;
constexpr int64_t kBarrierBytes = 256;
constexpr int64_t kReserved = 1024;  // of shared memory, by the driver for each thread block
constexpr int64_t kManyTiles = 512;  // of 32 rows by 128 columns, for each multiprocessor

struct Division {
  int warps;
  int strips;
  bool splits;
};

// How much of the workers' time is used where tiles of rows are not divided.
double use_of(int64_t strips, int64_t of_tile, int64_t workers) {
  const int64_t tiles = divide_up(strips, of_tile);
  return static_cast<double>(strips) /
         static_cast<double>(divide_up(tiles, workers) * workers * of_tile);
}

// The strips of a tile, of those given, that use workers best; the last of them if alike.
int best_strips(int64_t strips, int64_t workers, std::initializer_list<int> of_tile) {
  int best = *of_tile.begin();
  for (const int each : of_tile)
    if (use_of(strips, each, workers) >= use_of(strips, best, workers) - 1e-9) best = each;
  return best;
}

// What was the fastest on an H200, by the strips and tiles that a multiprocessor gets. More than 8
// rows of activations need more registers, which leaves 12 warps.
Division divide_many(int64_t strips, int64_t blocks, int64_t multiprocessors) {
  const int64_t each = divide_up(strips, multiprocessors);
  if (each * blocks > kManyTiles) {
    if (use_of(strips, 12, multiprocessors) > 0.95) return {12, 12, false};
    return {12, 6, true};
  }
  if (each == 1) return {12, 3, true};
  return {12, best_strips(strips, multiprocessors, {2, 3, 4, 6}), false};
}

Division divide_few(int64_t strips, int64_t blocks, int64_t multiprocessors, int64_t bits) {
  constexpr int64_t kManyBlocks = 48;
  const bool own = strips_add_themselves(bits, 1);
  const int64_t each = divide_up(strips, multiprocessors);
  if (each * blocks > kManyTiles) return {16, own ? 4 : 8, true};
  if (each == 1 && bits == 2 && blocks > kManyBlocks) return {16, 4, true};
  if (each == 1) return {16, own && blocks > kManyBlocks ? 1 : 2, false};
  if (!own) return {16, best_strips(strips, multiprocessors, {2, 4, 6}), false};
  if (each > 4) return {16, 2, false};
  return {8, best_strips(strips, strips_at_once(8) * multiprocessors, {1, 2}), false};
}

}  // namespace

StripsPlan plan_strips(const PackedShape& shape, int64_t m, HalfType type, int64_t multiprocessors,
                       int64_t shared_limit) {
  StripsPlan plan;
  plan.eights = m <= 8 ? 1 : 2;
  const bool own = strips_add_themselves(shape.bits, plan.eights);
  const int64_t all_strips = shape.packed_rows / kTileRows;
  const int64_t all_blocks = shape.packed_columns / kTileColumns;
  Division division = plan.eights == 1
                          ? divide_few(all_strips, all_blocks, multiprocessors, shape.bits)
                          : divide_many(all_strips, all_blocks, multiprocessors);
  // 8-bit codes with scales of the shortest spans: 16 warps abreast leave room for one unit only.
  if (division.strips == 1 && shape.bits == 8 && shape.scale_span < 32) division.strips = 2;
  plan.warps = division.warps;
  plan.strips = division.strips;
  plan.abreast = plan.warps / plan.strips;

  const int64_t tokens = int64_t{8} * plan.eights;
  const int64_t spans = shape.scale_span < kTileColumns ? kTileColumns / shape.scale_span : 1;
  const int64_t blocks = plan.abreast * strips_depth(shape.bits, plan.eights);  // of a stage
  const int64_t scale_bytes = spans * kTileRows * (shape.symmetric ? 2 : 3);
  plan.box_bytes = static_cast<int>(m == 1 ? 128 : 128 * tokens);
  plan.stage_bytes = round_up(
      2 * blocks * plan.box_bytes +
          plan.strips * blocks * (tile_words(shape.bits) * 4 + scale_bytes) +
          // Scales of groups of several blocks lie at multiples of the alignment.
          (shape.scale_span > kTileColumns ? 2 * blocks + 1 : 1) * StripsPlan::kBoxAlignment,
      kAlignment);
  const int at_once = strips_at_once(plan.warps);
  const int64_t limit = (shared_limit + kReserved) / at_once - kReserved;
  const int64_t fixed =
      kAlignment + kBarrierBytes +
      (plan.abreast > 1 ? plan.strips * plan.abreast * kTileRows * tokens * 4 : 0);
  const int64_t all_stage_bytes = plan.stage_bytes + (own ? 0 : blocks * spans * tokens * 4);
  plan.stages = static_cast<int>(
      std::min<int64_t>((limit - fixed) / all_stage_bytes, StripsPlan::kMaxStages));
  plan.shared_bytes = fixed + plan.stages * all_stage_bytes;

  plan.rounds = divide_up(all_blocks, blocks);
  plan.row_tiles = divide_up(all_strips, plan.strips);
  // Each strip of a range has a flag.
  const int64_t workers =
      std::min<int64_t>(multiprocessors * at_once, kMatmulFlagBytes / 4 / plan.strips);
  if (division.splits) {
    plan.ranges = static_cast<int>(std::min(plan.units(), workers));
    plan.range_units = static_cast<int>(plan.units() / plan.ranges);
    plan.longer_ranges = static_cast<int>(plan.units() % plan.ranges);
  } else {
    plan.range_units = static_cast<int>(divide_up(plan.row_tiles, workers) * plan.rounds);
    plan.ranges = static_cast<int>(divide_up(plan.units(), plan.range_units));
  }

  plan.prepares = shape.ordered || type == HalfType::kBFloat16 || shape.columns % 64 != 0;
  plan.inputs_at = round_up(StripsPlan::kMaxTokens * 4, 128);
  plan.sums_at = plan.inputs_at + (plan.prepares ? round_up(m * shape.packed_columns * 2, 128) : 0);
  plan.workspace_bytes = kMatmulFlagBytes + plan.sums_at +
                         (plan.splits() ? plan.ranges * plan.strips * kTileRows * tokens * 4 : 0);
  return plan;
}

}  // namespace gptqb::kernels
