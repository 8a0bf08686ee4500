#include "kernels/matmul_wide.h"

#include <algorithm>

#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr int64_t kAlignment = 1024;  // of swizzled boxes
constexpr int64_t kBarrierBytes = 1024;
constexpr int kManyStages = 8;

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }
int64_t rounds(int64_t work, int64_t workers) { return (work + workers - 1) / workers; }

}  // namespace

WidePlan plan_wide(const PackedShape& shape, int64_t m, int64_t multiprocessors,
                   int64_t shared_limit) {
  WidePlan plan;
  plan.tokens = 16;
  while (plan.tokens < m && plan.tokens < 256) plan.tokens *= 2;
  // Half tiles where they fill the last round better: a tile of 128 takes a little over half.
  const int64_t row_tiles = rounds(shape.packed_rows, WidePlan::kRows);
  if (plan.tokens == 256) {
    const int64_t large = 2 * rounds(row_tiles * rounds(m, 256), multiprocessors);
    const int64_t small = rounds(row_tiles * rounds(m, 128), multiprocessors);
    if (20 * large > 23 * small) plan.tokens = 128;
  }
  const int64_t spans = shape.scale_span < kTileColumns ? kTileColumns / shape.scale_span : 1;
  plan.stage_bytes =
      aligned(int64_t{plan.tokens} * kTileColumns * 2 +
              WidePlan::kRows * (kTileColumns * shape.bits / 8 + spans * 3));
  plan.stages = static_cast<int>(std::min<int64_t>(
      (shared_limit - kAlignment - kBarrierBytes) / plan.stage_bytes, kManyStages));
  plan.shared_bytes = kAlignment + kBarrierBytes + plan.stages * plan.stage_bytes;

  plan.row_tiles = row_tiles;
  plan.token_tiles = rounds(m, plan.tokens);
  const int64_t blocks = shape.packed_columns / kTileColumns;
  const int64_t tiles = plan.row_tiles * plan.token_tiles;
  // As many splits as leave the fewest multiprocessors idle; each sum that is split costs a few
  // blocks' time to be added.
  constexpr int64_t kSplitCost = 3;
  int64_t best = 0;
  for (int64_t splits = 1; splits <= std::max<int64_t>(1, 2 * multiprocessors / tiles) &&
                           splits <= blocks && splits <= 32;
       ++splits) {
    const int64_t each = rounds(blocks, splits);
    const int64_t used = rounds(blocks, each);
    const int64_t time =
        rounds(tiles * used, multiprocessors) * each + (used > 1 ? kSplitCost + used / 2 : 0);
    if (best != 0 && time >= best) continue;
    best = time;
    plan.splits = used;
    plan.split_blocks = each;
  }
  plan.gathers = shape.ordered || shape.columns % 8 != 0;
  if (plan.gathers) plan.gathered_bytes = (m * shape.packed_columns * 2 + 127) / 128 * 128;
  return plan;
}

}  // namespace gptqb::kernels
