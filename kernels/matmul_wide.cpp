#include "kernels/matmul_wide.h"

#include <algorithm>

#include "common/round_up.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr int64_t kAlignment = 1024;  // of swizzled boxes
constexpr int64_t kBarrierBytes = 1024;
constexpr int kManyStages = 8;
// In a microsecond on an H200: bytes that one multiprocessor and all of them read, operations of
// one; and what one more kernel takes.
constexpr double kBytesOfOne = 33e3;
constexpr double kBytesOfAll = 4.4e6;
constexpr double kProductsOfOne = 4.9e6;
constexpr double kAddTime = 2;

}  // namespace

WidePlan plan_wide(const PackedShape& shape, int64_t m, int64_t multiprocessors,
                   int64_t shared_limit) {
  WidePlan plan;
  plan.tokens = 16;
  while (plan.tokens < m && plan.tokens < 256) plan.tokens *= 2;
  // Half tiles where they fill the last round better: a tile of 128 takes a little over half.
  const int64_t row_tiles = divide_up(shape.packed_rows, WidePlan::kRows);
  if (plan.tokens == 256) {
    const int64_t large = 2 * divide_up(row_tiles * divide_up(m, 256), multiprocessors);
    const int64_t small = divide_up(row_tiles * divide_up(m, 128), multiprocessors);
    if (20 * large > 23 * small) plan.tokens = 128;
  }
  const int64_t spans = shape.scale_span < kTileColumns ? kTileColumns / shape.scale_span : 1;
  plan.stage_bytes = round_up(int64_t{plan.tokens} * kTileColumns * 2 +
                                  WidePlan::kRows * (kTileColumns * shape.bits / 8 + spans * 3),
                              kAlignment);
  const int64_t at_once = plan.tokens <= wide_small_tokens() ? 2 : 1;
  const int64_t limit = at_once == 2 ? shared_limit / 2 - 1024 : shared_limit;
  plan.stages = static_cast<int>(
      std::min<int64_t>((limit - kAlignment - kBarrierBytes) / plan.stage_bytes, kManyStages));
  plan.shared_bytes = kAlignment + kBarrierBytes + plan.stages * plan.stage_bytes;

  plan.row_tiles = row_tiles;
  plan.token_tiles = divide_up(m, plan.tokens);
  const int64_t blocks = shape.packed_columns / kTileColumns;
  const int64_t tiles = plan.row_tiles * plan.token_tiles;
  const int64_t workers = multiprocessors * at_once;
  // As many splits as take the least time, in microseconds on an H200: a block of columns takes as
  // long as its codes are read, or as its products take; splits' sums are written and read again.
  const double codes = static_cast<double>(WidePlan::kRows * kTileColumns * shape.bits / 8);
  const double products = 2.0 * WidePlan::kRows * kTileColumns * plan.tokens;
  const double block_time =
      static_cast<double>(at_once) * std::max(codes / kBytesOfOne, products / kProductsOfOne);
  double best = 0;
  for (int64_t splits = 1; splits <= std::min(blocks, wide_most_splits(tiles, workers)); ++splits) {
    const int64_t each = divide_up(blocks, splits);
    const int64_t used = divide_up(blocks, each);
    const double sums = static_cast<double>(2 * used * m * shape.packed_rows * 4) / kBytesOfAll;
    const double time = static_cast<double>(divide_up(tiles * used, workers) * each) * block_time +
                        (used > 1 ? kAddTime + sums : 0);
    if (best != 0 && time >= best) continue;
    best = time;
    plan.splits = used;
    plan.split_blocks = each;
  }
  plan.gathers = shape.ordered || shape.columns % 8 != 0;
  if (plan.gathers) plan.gathered_bytes = round_up(m * shape.packed_columns * 2, 128);
  return plan;
}

int64_t wide_workspace_bytes(const PackedShape& shape, int64_t m, int64_t multiprocessors) {
  // Stages, which shared memory decides on, change neither part.
  constexpr int64_t kAnyShared = int64_t{1} << 18;
  const WidePlan plan = plan_wide(shape, m, multiprocessors, kAnyShared);
  const int64_t sums = plan.splits * m * shape.packed_rows * static_cast<int64_t>(sizeof(float));
  return kMatmulFlagBytes + plan.gathered_bytes + (plan.splits > 1 ? sums : 0);
}

}  // namespace gptqb::kernels
