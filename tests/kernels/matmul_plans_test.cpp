// How the CUDA kernels divide their work, checked without a GPU: everything is covered once and
// fits.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/matmul_strips.h"
#include "kernels/matmul_tiles.h"
#include "kernels/matmul_wide.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr int64_t kH200Shared = 232448;  // bytes a block may take
constexpr int64_t kH200Processors = 132;

PackedShape shape_of(int64_t rows, int64_t columns, int64_t bits, int64_t span, bool symmetric) {
  PackedShape shape;
  shape.rows = rows;
  shape.columns = columns;
  shape.bits = bits;
  shape.symmetric = symmetric;
  shape.scale_span = span;
  shape.packed_rows = (rows + kTileRows - 1) / kTileRows * kTileRows;
  shape.packed_columns = (columns + kTileColumns - 1) / kTileColumns * kTileColumns;
  return shape;
}

template <class Check>
void for_each_shape(const Check& check) {
  for (const auto& [rows, columns] :
       {std::pair<int64_t, int64_t>{1, 1}, {97, 1000}, {4096, 4096}, {11008, 4096}, {12288, 49152}})
    for (const int64_t bits : {2, 3, 4, 8})
      for (const int64_t span : {16, 64, 128, 49152})
        for (const bool symmetric : {false, true}) {
          SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + ", " +
                       std::to_string(bits) + " bits, spans of " + std::to_string(span));
          check(shape_of(rows, columns, bits, span, symmetric));
        }
}

TEST(TilesPlan, CoversAllColumnsInWhatMemoryThereIs) {
  for_each_shape([](const PackedShape& shape) {
    const int64_t blocks = shape.packed_columns / kTileColumns;
    for (const int64_t m : {1, 8, 9, 16, 17, 32}) {
      const TilesPlan plan = plan_tiles(shape, m, kH200Processors, kH200Shared);
      EXPECT_LE(m, 8 * plan.eights);
      EXPECT_TRUE(plan.fits);
      EXPECT_LE(plan.shared_bytes, kH200Shared);
      EXPECT_GE(plan.parts * plan.part_blocks, blocks);
      EXPECT_LT((plan.parts - 1) * plan.part_blocks, blocks);
      EXPECT_LE(plan.grid, kH200Processors);
      EXPECT_LE(plan.grid, shape.packed_rows / kTileRows);
    }
  });
}

TEST(TilesPlan, OneTokenNeedsNoParts) {
  const auto shape = shape_of(49152, 12288, 4, 128, true);
  EXPECT_EQ(plan_tiles(shape, 1, kH200Processors, kH200Shared).parts, 1);
  EXPECT_GT(plan_tiles(shape, 16, kH200Processors, kH200Shared).parts, 1);
}

TEST(TilesPlan, SmallDevicesFitOrSaySo) {
  for_each_shape([](const PackedShape& shape) {
    for (const int64_t kilobytes : {99, 163, 227})
      for (const int64_t m : {1, 16, 32}) {
        const TilesPlan plan = plan_tiles(shape, m, 84, kilobytes * 1024);
        if (plan.fits) {
          EXPECT_LE(plan.shared_bytes, kilobytes * 1024);
        }
      }
  });
  const auto shape = shape_of(4096, 4096, 4, 128, true);
  EXPECT_TRUE(plan_tiles(shape, 1, 84, int64_t{99} * 1024).fits);
  EXPECT_FALSE(plan_tiles(shape, 32, 84, int64_t{99} * 1024).fits);
}

// Sizes of real layers beside those of for_each_shape.
TEST(StripsPlan, CoversEachUnitOnceInWhatMemoryThereIs) {
  const auto check = [](const PackedShape& shape) {
    for (const int64_t m : {1, 8, 9, 16})
      for (const HalfType type : {HalfType::kFloat16, HalfType::kBFloat16}) {
        const StripsPlan plan = plan_strips(shape, m, type, kH200Processors, kH200Shared);
        EXPECT_LE(m, 8 * plan.eights);
        EXPECT_LE(plan.strips * plan.abreast, plan.warps);
        EXPECT_GE(plan.abreast, 1);
        EXPECT_GE(plan.row_tiles * plan.strips * kTileRows, shape.packed_rows);
        EXPECT_LT((plan.row_tiles - 1) * plan.strips * kTileRows, shape.packed_rows);
        const int64_t blocks = plan.abreast * strips_depth(shape.bits, plan.eights);
        EXPECT_GE(plan.rounds * blocks * kTileColumns, shape.packed_columns);
        EXPECT_LT((plan.rounds - 1) * blocks * kTileColumns, shape.packed_columns);
        // Ranges follow each other: the first of them take one unit more, the last ends where
        // units do.
        const int64_t last = int64_t{plan.ranges} * plan.range_units + plan.longer_ranges;
        EXPECT_GE(last, plan.units());
        EXPECT_LT(last - plan.range_units, plan.units());
        EXPECT_LT(plan.longer_ranges, plan.ranges);
        if (plan.splits()) {
          EXPECT_EQ(last, plan.units());
          EXPECT_LE(plan.ranges * plan.strips * 4, kMatmulFlagBytes);
        }
        // One unit is copied while another is multiplied.
        EXPECT_GE(plan.stages, 2);
        const int at_once = strips_at_once(plan.warps);
        EXPECT_LE(at_once * (plan.shared_bytes + 1024), kH200Shared + 1024);
        EXPECT_EQ(plan.prepares, type == HalfType::kBFloat16 || shape.columns % 64 != 0);
      }
  };
  for_each_shape(check);
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{12288, 4096},
                                      {22016, 4096},
                                      {4096, 11008},
                                      {57344, 8192},
                                      {49152, 12288}})
    for (const int64_t bits : {2, 3, 4, 8}) check(shape_of(rows, columns, bits, 128, true));
  for (const int64_t bits : {2, 3, 4, 8})
    for (const int64_t span : {16, 32, 64})
      for (const bool symmetric : {false, true})
        check(shape_of(4096, 11008, bits, span, symmetric));
}

TEST(StripsPlan, TheWorkspaceHoldsWhatALaunchUses) {
  for_each_shape([](PackedShape shape) {
    for (const bool ordered : {false, true})
      for (const int64_t m : {1, 8, 9, 16}) {
        shape.ordered = ordered;
        // The type is not known where the workspace is asked for.
        const StripsPlan asked =
            plan_strips(shape, m, HalfType::kBFloat16, kH200Processors, kH200Shared);
        for (const HalfType type : {HalfType::kFloat16, HalfType::kBFloat16}) {
          const StripsPlan plan = plan_strips(shape, m, type, kH200Processors, kH200Shared);
          EXPECT_GE(plan.sums_at,
                    plan.inputs_at + (plan.prepares ? m * shape.packed_columns * 2 : 0));
          const int64_t sums =
              plan.splits() ? int64_t{plan.ranges} * plan.strips * kTileRows * 8 * plan.eights * 4
                            : 0;
          EXPECT_GE(asked.workspace_bytes, kMatmulFlagBytes + plan.sums_at + sums);
        }
      }
  });
}

TEST(WidePlan, CoversEachOutputAndColumnOnce) {
  for_each_shape([](const PackedShape& shape) {
    const int64_t blocks = shape.packed_columns / kTileColumns;
    for (const int64_t m : {1, 16, 17, 64, 100, 128, 257, 4096, 131075}) {
      const WidePlan plan = plan_wide(shape, m, kH200Processors, kH200Shared);
      const int64_t rows = plan.cluster * WidePlan::kRows;  // of a tile
      EXPECT_GE(plan.row_tiles * rows, shape.packed_rows);
      EXPECT_LT((plan.row_tiles - 1) * rows, shape.packed_rows);
      EXPECT_GE(plan.token_tiles * plan.tokens, m);
      EXPECT_LT((plan.token_tiles - 1) * plan.tokens, m);
      EXPECT_EQ(plan.blocks, blocks);
      EXPECT_LE(plan.whole, plan.tiles());
      EXPECT_GE(plan.splits * plan.split_blocks, blocks);
      EXPECT_LT((plan.splits - 1) * plan.split_blocks, blocks);
      EXPECT_LE(plan.clusters, plan.units());
      EXPECT_GE(plan.clusters, 1);
      EXPECT_GE(plan.stages, 2);
      // Each block leaves 1 KB of the multiprocessor's memory to the system.
      EXPECT_LE(wide_at_once(plan.tokens) * (plan.shared_bytes + 1024), kH200Shared + 1024);
      if (plan.meets) {
        // Each block has one unit, and its sums fit where its stages lay.
        EXPECT_EQ(plan.cluster, 1);
        EXPECT_EQ(plan.whole, 0);
        EXPECT_EQ(plan.clusters, plan.units());
        EXPECT_LE(plan.launched_cluster(), 8);
        EXPECT_GE(plan.stages * plan.stage_bytes, plan.tokens * (WidePlan::kRows + 4) * 4);
      }
      // Swizzled rows come eight at a time, and each block of a cluster copies its share.
      EXPECT_EQ(plan.tokens % (8 * plan.cluster), 0);
      std::vector<char> taken(static_cast<size_t>(plan.tiles()));
      for (int i = 0; i < plan.tiles(); ++i) {
        const WideTile tile = wide_tile(plan, i);
        taken.at(static_cast<size_t>(tile.row_tile + tile.token_tile * plan.row_tiles)) = 1;
      }
      EXPECT_EQ(std::count(taken.begin(), taken.end(), 1), plan.tiles());
    }
  });
}

TEST(WidePlan, TheWorkspaceHoldsWhatALaunchUses) {
  for_each_shape([](PackedShape shape) {
    for (const bool ordered : {false, true})
      for (const int64_t m : {1, 33, 4096}) {
        shape.ordered = ordered;
        const WidePlan plan = plan_wide(shape, m, kH200Processors, kH200Shared);
        EXPECT_EQ(plan.gathers, ordered || shape.columns % 8 != 0);
        int64_t bytes = 0;  // past the flags
        if (plan.gathers) bytes += (m * shape.packed_columns * 2 + 127) / 128 * 128;
        EXPECT_EQ(plan.gathered_bytes, bytes);
        // A part for each block of each unit of split columns that does not meet others.
        if (!plan.meets)
          bytes += (plan.units() - plan.whole) * plan.cluster * plan.tokens * WidePlan::kRows * 4;
        EXPECT_EQ(wide_workspace_bytes(shape, m, kH200Processors), kMatmulFlagBytes + bytes);
      }
  });
}

TEST(WidePlan, TilesThatFillNoRoundSplitTheirColumns) {
  // 32 tiles of rows: more units than tiles keep more multiprocessors at work.
  const WidePlan few =
      plan_wide(shape_of(4096, 11008, 4, 128, true), 64, kH200Processors, kH200Shared);
  EXPECT_EQ(few.whole, 0);
  EXPECT_GT(few.splits, 1);
  // As many as there are multiprocessors need no sums beside y.
  const WidePlan full = plan_wide(shape_of(128 * kH200Processors, 4096, 4, 128, true), 64,
                                  kH200Processors, kH200Shared);
  EXPECT_EQ(full.whole, full.tiles());
  EXPECT_EQ(full.sums_bytes, 0);
}

TEST(WidePlan, SplitsMeetWhereAllAreAtWorkAtOnce) {
  const auto plan_of = [](int64_t rows, int64_t columns, int64_t m) {
    return plan_wide(shape_of(rows, columns, 4, 128, true), m, kH200Processors, kH200Shared);
  };
  EXPECT_TRUE(plan_of(4096, 4096, 64).meets);
  EXPECT_TRUE(plan_of(4096, 4096, 128).meets);
  EXPECT_TRUE(plan_of(4096, 11008, 256).meets);
  EXPECT_EQ(plan_of(4096, 4096, 128).launched_cluster(), 2);
  EXPECT_TRUE(plan_of(4096, 11008, 200).meets);
  // Two thread blocks share a multiprocessor; many tiles.
  EXPECT_FALSE(plan_of(4096, 4096, 32).meets);
  EXPECT_FALSE(plan_of(22016, 4096, 256).meets);
}

TEST(WidePlan, ManyTilesOfActivationsAreSharedByTwoBlocks) {
  const auto large = shape_of(49152, 12288, 4, 128, true);
  EXPECT_EQ(plan_wide(large, 1024, kH200Processors, kH200Shared).cluster, 2);
  EXPECT_EQ(plan_wide(large, 64, kH200Processors, kH200Shared).cluster, 1);
  // Of many columns only for few activations.
  const auto columns = shape_of(12288, 49152, 4, 128, true);
  EXPECT_EQ(plan_wide(columns, 512, kH200Processors, kH200Shared).cluster, 2);
  EXPECT_EQ(plan_wide(columns, 1024, kH200Processors, kH200Shared).cluster, 1);
  EXPECT_EQ(plan_wide(shape_of(100, 128, 4, 128, true), 4096, kH200Processors, kH200Shared).cluster,
            1);
}

}  // namespace
}  // namespace gptqb::kernels
