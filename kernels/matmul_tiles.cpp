#include "kernels/matmul_tiles.h"

#include <algorithm>
#include <string>

#include "common/round_up.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr int64_t kAlignment = 128;

}  // namespace

TilesPlan plan_tiles(const PackedShape& shape, int64_t m, int64_t multiprocessors,
                     int64_t shared_limit) {
  TilesPlan plan;
  plan.eights = m <= 16 ? 2 : 4;
  constexpr int64_t kWarps = TilesPlan::kWarps;
  const int64_t spans = shape.scale_span < kTileColumns ? kTileColumns / shape.scale_span : 1;
  plan.slot_bytes = round_up(kWarps * (tile_words(shape.bits) * 4 + spans * kTileRows * 2 +
                                       (shape.symmetric ? 0 : spans * kTileRows)),
                             kAlignment);

  const int64_t blocks = shape.packed_columns / kTileColumns;
  const int64_t fixed = tiles_fixed_bytes(plan.eights);
  const auto input_sums = [&](int64_t part) { return part * spans * 8 * plan.eights * 4; };
  const auto inputs = [&](int64_t part) {
    return round_up(input_sums(part) + m * (part * kTileColumns + tiles_input_pad()) * 2,
                    kAlignment);
  };
  const auto slots_beside = [&](int64_t part) {
    return (shared_limit - fixed - inputs(part)) / plan.slot_bytes;
  };
  // Parts of whole rounds of warps, as few and as even as fit.
  plan.part_blocks = blocks;
  for (int64_t parts = 2;
       slots_beside(plan.part_blocks) < TilesPlan::kSlots && plan.part_blocks > kWarps; ++parts) {
    plan.part_blocks = round_up(divide_up(blocks, parts), kWarps);
  }
  plan.parts = divide_up(blocks, plan.part_blocks);
  plan.fits = slots_beside(plan.part_blocks) >= TilesPlan::kSlots;
  plan.input_sum_bytes = input_sums(plan.part_blocks);
  plan.shared_bytes = fixed + inputs(plan.part_blocks) + TilesPlan::kSlots * plan.slot_bytes;
  plan.grid = std::min(shape.packed_rows / kTileRows, multiprocessors);
  return plan;
}

std::string tiles_memory_refusal(const MatmulProblem& problem, const MatmulDevice& device) {
  if (device.shared_bytes == 0) return "";
  PackedShape shape;
  shape.bits = problem.bits;
  shape.symmetric = problem.symmetric;
  shape.packed_rows = kTileRows;
  shape.packed_columns = round_up(problem.k, kTileColumns);
  // The largest span that a group is made of, as far as memory depends on it.
  shape.scale_span = kTileColumns;
  if (problem.group_size > 0 && problem.group_size < problem.k)
    while (problem.group_size % shape.scale_span != 0) shape.scale_span /= 2;
  if (plan_tiles(shape, problem.m, 1, device.shared_bytes).fits) return "";
  return "expected a device with more shared memory for " + std::to_string(problem.bits) +
         " bits and " + std::to_string(problem.m) + " rows of activations, got one of " +
         std::to_string(device.shared_bytes) + " bytes a block";
}

}  // namespace gptqb::kernels
