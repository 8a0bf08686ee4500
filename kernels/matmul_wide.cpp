#include "kernels/matmul_wide.h"

#include <algorithm>
#include <array>
#include <bit>

#include "common/round_up.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr int64_t kAlignment = 1024;  // of swizzled boxes
constexpr int64_t kBarrierBytes = 1024;
constexpr int kManyStages = 8;
constexpr int64_t kReserved = 1024;  // of shared memory, by the driver for each thread block
constexpr int64_t kMostSplits = 16;
constexpr int kLeastTokens = 16;
constexpr int kMostTokens = 256;
constexpr int64_t kSharedBlocks = 128;
constexpr int64_t kSharedTokens = 128;
constexpr int64_t kLongRowTokens = 512;
// Microseconds on an H200: what a multiprocessor takes for 128 rows by 128 columns by 16, 32, 64,
// 128 or 256 tokens; a tile's beginning and end; the kernel that adds splits up. Bytes of splits'
// sums that are written or read in one. What splits take that meet in a cluster, by tokens as
// above.
constexpr std::array<double, 5> kBlockTimes = {0.40, 0.45, 0.52, 0.755, 1.44};
constexpr double kTileTime = 2;
constexpr double kAddTime = 3.5;
constexpr double kSumBytes = 3.4e6;
constexpr std::array<double, 5> kMeetTimes = {2, 2, 2.8, 4.1, 6.6};
double of_tokens(const std::array<double, 5>& times, int tokens) {
  return times[static_cast<size_t>(std::bit_width(static_cast<unsigned>(tokens)) - 5)];
}

constexpr int64_t kMostMeet = 8;  // blocks of a cluster on every GPU that has clusters

// Whether `splits` of each of `tiles` are to meet. All must be at work at the same time: a GPU's
// multiprocessors come in groups of 16 or so, which clusters of two fill and larger ones do not (30
// of 4 fit on the 132 of an H200). Where two blocks share a multiprocessor it was no faster.
bool can_meet(const WidePlan& plan, int64_t tiles, int64_t splits) {
  const int64_t units = tiles * splits;
  return plan.cluster == 1 && splits <= kMostMeet && wide_at_once(plan.tokens) == 1 &&
         (splits == 2 ? units <= plan.clusters : 4 * units <= 3 * plan.clusters);
}

// Sets tiles of `tokens`, which are taken whole and how the others are split, so that it takes the
// least time, which it returns.
double divide(WidePlan& plan, int tokens, int64_t m, int64_t multiprocessors) {
  plan.tokens = tokens;
  plan.token_tiles = divide_up(m, tokens);
  const int at_once = wide_at_once(tokens);
  plan.clusters = multiprocessors / plan.cluster * at_once;
  const int64_t tiles = plan.tiles();
  const auto rounds = [&](int64_t units) { return divide_up(units, plan.clusters); };
  const auto time_of = [&](int64_t units, int64_t blocks) {
    return static_cast<double>(rounds(units)) *
           (static_cast<double>(blocks * at_once) * of_tokens(kBlockTimes, tokens) + kTileTime);
  };
  plan.whole = tiles;
  plan.splits = 1;
  plan.meets = false;
  plan.split_blocks = plan.blocks;
  double best = time_of(tiles, plan.blocks);
  const int64_t full = tiles / plan.clusters;
  for (int64_t whole = std::max<int64_t>(full - 1, 0) * plan.clusters; whole <= tiles;
       whole += plan.clusters) {
    const int64_t left = tiles - whole;
    for (int64_t splits = 2; left > 0 && splits <= std::min(plan.blocks, kMostSplits); ++splits) {
      const int64_t each = divide_up(plan.blocks, splits);
      const int64_t used = divide_up(plan.blocks, each);
      const double sums =
          static_cast<double>(2 * left * used * plan.cluster * tokens * WidePlan::kRows * 4);
      const bool meets = whole == 0 && can_meet(plan, left, used);
      const double time = time_of(whole, plan.blocks) + time_of(left * used, each) +
                          (meets ? of_tokens(kMeetTimes, tokens) : kAddTime + sums / kSumBytes);
      if (used == 1 || time >= best) continue;
      best = time;
      plan.meets = meets;
      plan.whole = whole;
      plan.splits = used;
      plan.split_blocks = each;
    }
  }
  plan.clusters = std::min(plan.clusters, plan.units());
  return best;
}

}  // namespace

WidePlan plan_wide(const PackedShape& shape, int64_t m, int64_t multiprocessors,
                   int64_t shared_limit) {
  WidePlan plan;
  plan.blocks = shape.packed_columns / kTileColumns;
  const int64_t rows = divide_up(shape.packed_rows, WidePlan::kRows);
  // Sharing pays where activations are most of what is read, unless there are many of them and many
  // columns.
  const bool many = rows * divide_up(m, kSharedTokens) >= 2 * multiprocessors;
  const bool long_rows = plan.blocks > kSharedBlocks && m > kLongRowTokens;
  plan.cluster = many && m >= kSharedTokens && !long_rows ? 2 : 1;
  plan.row_tiles = divide_up(rows, plan.cluster);
  WidePlan other = plan;
  double best = divide(plan, kLeastTokens, m, multiprocessors);
  for (int tokens = 2 * kLeastTokens; tokens <= kMostTokens && tokens < 2 * m; tokens *= 2) {
    const double time = divide(other, tokens, m, multiprocessors);
    if (time >= best) continue;
    best = time;
    plan = other;
  }

  const int64_t spans = shape.scale_span < kTileColumns ? kTileColumns / shape.scale_span : 1;
  plan.stage_bytes = round_up(int64_t{plan.tokens} * kTileColumns * 2 +
                                  WidePlan::kRows * (kTileColumns * shape.bits / 8 + spans * 3),
                              kAlignment);
  const int at_once = wide_at_once(plan.tokens);
  const int64_t limit = (shared_limit + kReserved) / at_once - kReserved;
  plan.stages = static_cast<int>(
      std::min<int64_t>((limit - kAlignment - kBarrierBytes) / plan.stage_bytes, kManyStages));
  plan.shared_bytes = kAlignment + kBarrierBytes + plan.stages * plan.stage_bytes;

  plan.gathers = shape.ordered || shape.columns % 8 != 0;
  if (plan.gathers) plan.gathered_bytes = round_up(m * shape.packed_columns * 2, 128);
  if (!plan.meets)
    plan.sums_bytes =
        plan.split_tiles() * plan.splits * plan.cluster * plan.tokens * WidePlan::kRows * 4;
  return plan;
}

int64_t wide_workspace_bytes(const PackedShape& shape, int64_t m, int64_t multiprocessors) {
  // Only stages depend on shared memory.
  constexpr int64_t kAnyShared = int64_t{1} << 18;
  const WidePlan plan = plan_wide(shape, m, multiprocessors, kAnyShared);
  return kMatmulFlagBytes + plan.gathered_bytes + plan.sums_bytes;
}

}  // namespace gptqb::kernels
