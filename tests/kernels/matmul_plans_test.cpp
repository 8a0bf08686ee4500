// How the CUDA kernels divide their work, checked without a GPU: everything is covered once and
// fits.
#include <gtest/gtest.h>

#include "common/error.h"
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
      const TilesPlan plan = plan_tiles(shape, m, kH200Processors, kH200Shared, 90);
      EXPECT_LE(m, 8 * plan.eights);
      EXPECT_GE(plan.slots, 1);
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
  EXPECT_EQ(plan_tiles(shape, 1, kH200Processors, kH200Shared, 90).parts, 1);
  EXPECT_GT(plan_tiles(shape, 16, kH200Processors, kH200Shared, 90).parts, 1);
}

// compute capability 8.6 and 8.9: 99 KB a block.
TEST(TilesPlan, OlderDevicesTakeTwoCopiesAndSayWhereMemoryEnds) {
  const TilesPlan plan =
      plan_tiles(shape_of(4096, 4096, 4, 128, true), 1, 84, int64_t{99} * 1024, 86);
  EXPECT_FALSE(plan.bulk);
  EXPECT_EQ(plan.slots, TilesPlan::kSlotsBefore90);
  EXPECT_LE(plan.shared_bytes, int64_t{99} * 1024);
  EXPECT_THROW(plan_tiles(shape_of(4096, 4096, 8, 16, false), 32, 84, int64_t{99} * 1024, 86),
               Error);
}

TEST(WidePlan, CoversEachOutputAndColumnOnce) {
  for_each_shape([](const PackedShape& shape) {
    const int64_t blocks = shape.packed_columns / kTileColumns;
    for (const int64_t m : {1, 16, 17, 64, 100, 128, 257, 4096, 131075}) {
      const WidePlan plan = plan_wide(shape, m, kH200Processors, kH200Shared);
      EXPECT_GE(plan.row_tiles * WidePlan::kRows, shape.packed_rows);
      EXPECT_LT((plan.row_tiles - 1) * WidePlan::kRows, shape.packed_rows);
      EXPECT_GE(plan.token_tiles * plan.tokens, m);
      EXPECT_LT((plan.token_tiles - 1) * plan.tokens, m);
      EXPECT_GE(plan.splits * plan.split_blocks, blocks);
      EXPECT_LT((plan.splits - 1) * plan.split_blocks, blocks);
      EXPECT_GE(plan.stages, 2);
      EXPECT_LE(plan.shared_bytes, kH200Shared);
    }
  });
}

TEST(WidePlan, FewTilesSplitTheirColumns) {
  const auto narrow = shape_of(4096, 11008, 4, 128, true);
  EXPECT_GT(plan_wide(narrow, 64, kH200Processors, kH200Shared).splits, 1);
  EXPECT_EQ(plan_wide(narrow, 4096, kH200Processors, kH200Shared).splits, 1);
}

}  // namespace
}  // namespace gptqb::kernels
