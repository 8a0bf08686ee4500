#include "kernels/matmul_tiles.h"

#include <algorithm>

#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr int64_t kAlignment = 128;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Copies that each warp should have under way, and how many are worth shared memory.
constexpr int kFewSlots = 3;
constexpr int kManySlots = 8;

}  // namespace

TilesPlan plan_tiles(const PackedShape& shape, int64_t m, int64_t multiprocessors,
                     int64_t shared_limit, int64_t capability) {
  TilesPlan plan;
  plan.bulk = capability >= 90;
  plan.eights = m <= 8 ? 1 : m <= 16 ? 2 : 4;
  const int64_t spans = shape.scale_span < kTileColumns ? kTileColumns / shape.scale_span : 1;
  plan.slot_bytes = aligned(tile_words(shape.bits) * 4 + spans * kTileRows * 2 +
                            (shape.symmetric ? 0 : spans * kTileRows));

  const int64_t blocks = shape.packed_columns / kTileColumns;
  const int64_t fixed = tiles_fixed_bytes(plan.eights);
  const auto inputs = [&](int64_t part) {
    return aligned(m * (part * kTileColumns + tiles_input_pad()) * 2);
  };
  const auto slots_in = [&](int64_t budget, int64_t part) {
    return (budget - fixed - inputs(part)) / (TilesPlan::kWarps * plan.slot_bytes);
  };
  // Half of a multiprocessor's memory if that is enough: the next kernel's copies can then begin
  // before this one ends.
  const int64_t half = shared_limit / 2 - 1024;
  const int64_t fewest = plan.bulk ? kFewSlots : TilesPlan::kSlotsBefore90;
  plan.part_blocks = blocks;
  int64_t slots = slots_in(half, blocks);
  if (slots < fewest) slots = slots_in(shared_limit, blocks);
  if (slots < fewest) {
    // Parts of whole rounds of warps, as few and as even as fit.
    while (plan.part_blocks > TilesPlan::kWarps &&
           slots_in(shared_limit, plan.part_blocks) < kFewSlots + 2) {
      ++plan.parts;
      const int64_t even = (blocks + plan.parts - 1) / plan.parts;
      plan.part_blocks = (even + TilesPlan::kWarps - 1) / TilesPlan::kWarps * TilesPlan::kWarps;
    }
    plan.parts = (blocks + plan.part_blocks - 1) / plan.part_blocks;
    slots = slots_in(shared_limit, plan.part_blocks);
  }
  plan.slots = static_cast<int>(plan.bulk ? std::min<int64_t>(slots, kManySlots)
                                          : TilesPlan::kSlotsBefore90);
  plan.shared_bytes =
      fixed + inputs(plan.part_blocks) + int64_t{TilesPlan::kWarps} * plan.slots * plan.slot_bytes;
  const int64_t strips = shape.packed_rows / kTileRows;
  plan.grid = std::min(strips, multiprocessors);
  return plan;
}

}  // namespace gptqb::kernels
