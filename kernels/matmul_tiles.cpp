#include "kernels/matmul_tiles.h"

#include <algorithm>

#include "common/error.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr int64_t kAlignment = 128;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Copies that should be under way, and how many are worth their memory.
constexpr int64_t kFewSlots = 3;
constexpr int64_t kManySlots = 8;

}  // namespace

TilesPlan plan_tiles(const PackedShape& shape, int64_t m, int64_t multiprocessors,
                     int64_t shared_limit, int64_t capability) {
  TilesPlan plan;
  plan.bulk = capability >= 90;
  // More warps want more memory than older devices have.
  plan.eights = m <= 8 && plan.bulk ? 1 : m <= 16 ? 2 : 4;
  const int64_t warps = tiles_warps(plan.eights);
  const int64_t spans = shape.scale_span < kTileColumns ? kTileColumns / shape.scale_span : 1;
  plan.slot_bytes = aligned(warps * (tile_words(shape.bits) * 4 + spans * kTileRows * 2 +
                                     (shape.symmetric ? 0 : spans * kTileRows)));

  const int64_t blocks = shape.packed_columns / kTileColumns;
  const int64_t fixed = tiles_fixed_bytes(plan.eights);
  const auto input_sums = [&](int64_t part) { return part * spans * 8 * plan.eights * 4; };
  const auto inputs = [&](int64_t part) {
    return aligned(input_sums(part) + m * (part * kTileColumns + tiles_input_pad()) * 2);
  };
  const auto slots_beside = [&](int64_t part) {
    return (shared_limit - fixed - inputs(part)) / plan.slot_bytes;
  };
  // Parts of whole rounds of warps, as few and as even as fit.
  const int64_t fewest = plan.bulk ? kFewSlots : TilesPlan::kSlotsBefore90;
  plan.part_blocks = blocks;
  for (int64_t parts = 2; slots_beside(plan.part_blocks) < fewest && plan.part_blocks > warps;
       ++parts) {
    const int64_t even = (blocks + parts - 1) / parts;
    plan.part_blocks = (even + warps - 1) / warps * warps;
  }
  plan.parts = (blocks + plan.part_blocks - 1) / plan.part_blocks;
  const int64_t slots = std::min(slots_beside(plan.part_blocks), kManySlots);
  if (slots < (plan.bulk ? 1 : TilesPlan::kSlotsBefore90))
    throw Error("kernel cuda_tiles", "expected more than " + std::to_string(shared_limit) +
                                         " bytes of shared memory a block for " +
                                         std::to_string(shape.bits) + " bits and " +
                                         std::to_string(m) + " rows of activations");
  plan.slots = static_cast<int>(plan.bulk ? slots : TilesPlan::kSlotsBefore90);
  plan.input_sum_bytes = input_sums(plan.part_blocks);
  plan.shared_bytes = fixed + inputs(plan.part_blocks) + plan.slots * plan.slot_bytes;
  plan.grid = std::min(shape.packed_rows / kTileRows, multiprocessors);
  return plan;
}

}  // namespace gptqb::kernels
