// The layout "rows": every code where the drawing in row_layout.h puts it, and back.
#include "kernels/row_layout.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/matmul_problem.h"
#include "tests/support/packed_matrix.h"
#include "tests/support/round_trip.h"

namespace gptqb::kernels {
namespace {

using test::ColumnOrder;
using test::MatmulCase;
using test::MatmulData;
using test::PackedMatrix;

// 16-bit lane of the packed codes -> bits of it.
using Lanes = std::map<int64_t, uint16_t>;

struct Drawn {
  int64_t bits, row, column;
  Lanes lanes;
};

// Worked out by hand from the drawing, for two units of 4 rows and more: a vector is 16 lanes, the
// next one of the same row is 64 lanes further on.
const std::vector<Drawn> kDrawn = {
    // 8 bits: two slots a vector, 8 vectors a row of 256 columns, 512 lanes a strip.
    {8, 0, 0, {{0, 0xff}}},
    {8, 0, 15, {{15, 0xff}}},
    {8, 0, 16, {{0, 0xff00}}},
    {8, 0, 32, {{64, 0xff}}},
    {8, 3, 50, {{64 + 48 + 2, 0xff00}}},
    {8, 4, 0, {{512, 0xff}}},
    // 4 bits: four slots, 4 vectors a row, 256 lanes a strip.
    {4, 0, 17, {{1, 0xf0}}},
    {4, 1, 63, {{16 + 15, 0xf000}}},
    {4, 0, 64, {{64, 0xf}}},
    {4, 5, 255, {{256 + 3 * 64 + 16 + 15, 0xf000}}},
    // 2 bits: eight slots, 2 vectors a row, 128 lanes a strip.
    {2, 0, 127, {{15, 0xc000}}},
    {2, 2, 130, {{64 + 32 + 2, 0x3}}},
    {2, 4, 47, {{128 + 15, 0x30}}},
    // 3 bits: five slots, 3 vectors a row and 192 lanes a strip; columns 240 .. 255 are spread.
    {3, 0, 0, {{0, 0x7}}},
    {3, 0, 64, {{0, 0x7000}}},
    {3, 0, 80, {{64, 0x7}}},
    {3, 1, 239, {{2 * 64 + 16 + 15, 0x7000}}},
    {3, 0, 240, {{0, 0x8000}, {64, 0x8000}, {128, 0x8000}}},
    {3, 7, 255, {{192 + 63, 0x8000}, {192 + 64 + 63, 0x8000}, {192 + 128 + 63, 0x8000}}},
};

TEST(RowLayout, CodesLieWhereTheDrawingPutsThem) {
  for (const Drawn& drawn : kDrawn) {
    SCOPED_TRACE(std::to_string(drawn.bits) + " bits, row " + std::to_string(drawn.row) +
                 ", column " + std::to_string(drawn.column));
    MatmulData data = test::matmul_data({.n = 8, .k = 256, .bits = drawn.bits});
    std::fill(data.codes.begin(), data.codes.end(), 0);
    data.codes[static_cast<size_t>(drawn.row * 256 + drawn.column)] =
        static_cast<uint8_t>((1U << drawn.bits) - 1);
    const PackedMatrix packed(data.view(), "rows");
    const auto* const lanes = reinterpret_cast<const uint16_t*>(packed.view().codes);
    Lanes set;
    for (int64_t lane = 0; lane < 8 * 256 * drawn.bits / 16; ++lane)
      if (lanes[lane] != 0) set[lane] = lanes[lane];
    EXPECT_EQ(set, drawn.lanes);
  }
}

// Bit by bit as the drawing has it, for the slow oracle below.
int64_t code_at(const PackedShape& shape, const uint32_t* codes, int64_t row, int64_t column) {
  const auto* const lanes = reinterpret_cast<const uint16_t*>(codes);
  const int64_t strip = row / 4 * 4 * shape.packed_columns * shape.bits / 16;
  const auto lane = [&](int64_t vector) -> int64_t {
    return lanes[strip + (vector * 4 + row % 4) * 16 + column % 16];
  };
  const int64_t slot = column / 16;
  if (shape.bits != 3) {
    const int64_t slots = 16 / shape.bits;
    return lane(slot / slots) >> (slot % slots * shape.bits) & ((1 << shape.bits) - 1);
  }
  const int64_t first = slot / 16 * 3;
  if (slot % 16 < 15) return lane(first + slot % 16 / 5) >> (slot % 16 % 5 * 3) & 7;
  return lane(first) >> 15 | (lane(first + 1) >> 15) << 1 | (lane(first + 2) >> 15) << 2;
}

void expect_positions(const MatmulData& data, const PackedMatrix& packed) {
  const PackedShape& shape = packed.shape();
  const PackedView view = packed.view();
  int64_t wrong = 0;
  for (int64_t row = 0; row < shape.packed_rows; ++row)
    for (int64_t column = 0; column < shape.packed_columns; ++column) {
      const int64_t from = shape.ordered ? view.input_order[column] : column;
      const int64_t code = code_at(shape, view.codes, row, column);
      const int64_t at = (row / 4 * shape.scale_spans() + column / shape.scale_span) * 4 + row % 4;
      if (from < 0 || from >= shape.columns || row >= shape.rows) {
        wrong += code != 0;
        if (row >= shape.rows) wrong += view.scales[at] != 0;
        continue;
      }
      const int64_t grid = row * shape.groups + data.group(from);
      wrong += code != data.codes[static_cast<size_t>(row * shape.columns + from)];
      wrong += float_of_half(view.scales[at]) != data.scales[static_cast<size_t>(grid)];
      if (!shape.symmetric) wrong += view.zeros[at] != data.zeros[static_cast<size_t>(grid)];
    }
  EXPECT_EQ(wrong, 0);
}

TEST(RowLayout, UnpackingGivesBackWhatWasPacked) {
  constexpr std::pair<int64_t, int64_t> kSizes[] = {{1, 1}, {13, 387}, {8, 768}};
  for (const int64_t bits : {2, 3, 4, 8})
    for (const int64_t group : {-1, 16, 32, 48, 64, 96, 128, 256})
      for (const bool symmetric : {false, true})
        for (const auto order : {ColumnOrder::kNatural, ColumnOrder::kIndexed,
                                 ColumnOrder::kActOrder, ColumnOrder::kUneven})
          for (const auto& [rows, columns] : kSizes) {
            const MatmulCase of{.n = rows,
                                .k = columns,
                                .bits = bits,
                                .group_size = group,
                                .symmetric = symmetric,
                                .order = order};
            SCOPED_TRACE(of.text());
            const MatmulData data = test::matmul_data(of);
            const PackedMatrix packed(data.view(), "rows");
            if (rows == 13) expect_positions(data, packed);
            test::expect_round_trip(data, packed);
          }
}

}  // namespace
}  // namespace gptqb::kernels
