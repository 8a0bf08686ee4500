// The layout "tiles": every code where the drawing in tile_layout.h puts it, and back.
#include "kernels/tile_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <map>

#include "kernels/tile_position.h"
#include "tests/support/matmul_problem.h"
#include "tests/support/message.h"
#include "tests/support/packed_matrix.h"
#include "tests/support/round_trip.h"

namespace gptqb::kernels {
namespace {

using test::ColumnOrder;
using test::MatmulCase;
using test::MatmulData;
using test::PackedMatrix;
using ::testing::HasSubstr;

// Every code of `data` where tile_position.h says, its scale and zero too, zeros in all padding.
void expect_positions(const MatmulData& data, const PackedMatrix& packed) {
  const PackedShape& shape = packed.shape();
  const PackedView view = packed.view();
  std::vector<int> met(static_cast<size_t>(shape.columns));
  int64_t wrong = 0;
  for (int64_t column = 0; column < shape.packed_columns; ++column) {
    const int64_t from = shape.ordered ? view.input_order[column] : column;
    const bool padded = from < 0 || from >= shape.columns;
    if (!padded) ++met[static_cast<size_t>(from)];
    for (int64_t row = 0; row < shape.packed_rows; ++row) {
      const int64_t code = tiles_code(shape, view.codes, row, column);
      const int64_t at = tiles_scale_at(shape, row, column);
      if (padded || row >= shape.rows) {
        wrong += code != 0;
        if (row >= shape.rows) wrong += view.scales[at] != 0;
        if (row >= shape.rows && !shape.symmetric) wrong += view.zeros[at] != 0;
        continue;
      }
      const int64_t grid = row * shape.groups + data.group(from);
      wrong += code != data.codes[static_cast<size_t>(row * shape.columns + from)];
      wrong += float_of_half(view.scales[at]) != data.scales[static_cast<size_t>(grid)];
      if (!shape.symmetric) wrong += view.zeros[at] != data.zeros[static_cast<size_t>(grid)];
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(std::count(met.begin(), met.end(), 1), shape.columns);
}

// The part of `bits` set bits that a code of all ones leaves in a tile: word -> bits of it.
using Words = std::map<int64_t, uint32_t>;

struct Drawn {
  int64_t bits, row, column;
  Words words;
};

// Worked out by hand from the drawing.
const std::vector<Drawn> kDrawn = {
    // 8 bits: 512 words a warp, 128 a chunk of four words, two words a step.
    {8, 0, 0, {{0, 0xffU}}},
    {8, 0, 1, {{0, 0xffU << 16}}},
    {8, 0, 8, {{0, 0xffU << 8}}},
    {8, 0, 9, {{0, 0xffU << 24}}},
    {8, 8, 0, {{1, 0xffU}}},
    {8, 0, 2, {{4, 0xffU}}},
    {8, 1, 0, {{16, 0xffU}}},
    {8, 0, 16, {{2, 0xffU}}},
    {8, 0, 32, {{128, 0xffU}}},
    {8, 16, 0, {{512, 0xffU}}},
    {8, 31, 127, {{1023, 0xffU << 24}}},
    // 4 bits: 256 words a warp, two words for two steps.
    {4, 0, 0, {{0, 0xfU}}},
    {4, 0, 16, {{0, 0xfU << 4}}},
    {4, 0, 8, {{0, 0xfU << 8}}},
    {4, 0, 24, {{0, 0xfU << 12}}},
    {4, 8, 33, {{3, 0xfU << 16}}},
    {4, 0, 64, {{128, 0xfU}}},
    {4, 21, 70, {{476, 0xfU}}},
    {4, 31, 127, {{511, 0xfU << 28}}},
    // 2 bits: 128 words a warp, two words for four steps.
    {2, 0, 16, {{0, 3U << 2}}},
    {2, 0, 48, {{0, 3U << 6}}},
    {2, 0, 56, {{0, 3U << 14}}},
    {2, 0, 64, {{2, 3U}}},
    {2, 8, 127, {{15, 3U << 30}}},
    {2, 24, 5, {{137, 3U << 16}}},
    // 3 bits: 192 words a warp; words 0 .. 2 are row g, 3 .. 5 row g + 8, of which 4 and 5 lie in
    // the second chunk, two a lane.
    {3, 0, 0, {{0, 7U}}},
    {3, 0, 8, {{0, 7U << 9}}},
    {3, 0, 16, {{1, 7U}}},
    {3, 0, 48, {{0, 7U << 3}}},
    {3, 0, 57, {{0, 7U << 28}}},
    {3, 0, 96, {{0, 7U << 6}}},
    {3, 0, 104, {{1, 7U << 6}}},
    {3, 0, 112, {{2, 7U << 6}}},
    {3, 0, 120, {{0, 1U << 15}, {1, 1U << 15}, {2, 1U << 15}}},
    {3, 8, 0, {{3, 7U}}},
    {3, 8, 16, {{128, 7U}}},
    {3, 8, 32, {{129, 7U}}},
    {3, 8, 123, {{7, 1U << 31}, {130, 1U << 31}, {131, 1U << 31}}},
    {3, 16, 0, {{192, 7U}}},
};

TEST(TileLayout, CodesLieWhereTheDrawingPutsThem) {
  for (const Drawn& drawn : kDrawn) {
    SCOPED_TRACE(std::to_string(drawn.bits) + " bits, row " + std::to_string(drawn.row) +
                 ", column " + std::to_string(drawn.column));
    MatmulData data = test::matmul_data({.n = 32, .k = 128, .bits = drawn.bits});
    std::fill(data.codes.begin(), data.codes.end(), 0);
    data.codes[static_cast<size_t>(drawn.row * 128 + drawn.column)] =
        static_cast<uint8_t>((1U << drawn.bits) - 1);
    const PackedMatrix packed(data.view());
    Words set;
    for (int64_t word = 0; word < tile_words(drawn.bits); ++word)
      if (packed.view().codes[word] != 0) set[word] = packed.view().codes[word];
    EXPECT_EQ(set, drawn.words);
    Words said;
    for (int64_t bit = 0; bit < drawn.bits; ++bit) {
      const TileBit at = tile_bit(drawn.bits, drawn.row, drawn.column, bit);
      said[at.word] |= 1U << at.shift;
    }
    EXPECT_EQ(said, drawn.words);
  }
}

TEST(TileLayout, EveryBitOfATileBelongsToOneCode) {
  for (const int64_t bits : {2, 3, 4, 8}) {
    std::vector<int> used(static_cast<size_t>(tile_words(bits) * 32));
    for (int64_t row = 0; row < kTileRows; ++row)
      for (int64_t column = 0; column < kTileColumns; ++column)
        for (int64_t bit = 0; bit < bits; ++bit) {
          const TileBit at = tile_bit(bits, row, column, bit);
          ++used.at(static_cast<size_t>(at.word * 32 + at.shift));
        }
    EXPECT_EQ(std::count(used.begin(), used.end(), 1), static_cast<int64_t>(used.size())) << bits;
  }
}

TEST(TileLayout, UnpackingGivesBackWhatWasPacked) {
  constexpr std::pair<int64_t, int64_t> kSizes[] = {{1, 1}, {65, 387}, {37, 640}};
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
            const PackedMatrix packed(data.view());
            EXPECT_EQ(packed.shape().symmetric, packed.bytes().zeros == 0);
            const bool natural = order == ColumnOrder::kNatural || order == ColumnOrder::kIndexed;
            EXPECT_FALSE(natural && packed.shape().ordered);
            EXPECT_TRUE(!symmetric || packed.shape().symmetric);
            test::expect_round_trip(data, packed);
            if (rows == 65 && symmetric == (group % 32 == 0)) expect_positions(data, packed);
          }
}

// Scale spans as the header says: powers of two from 16 to 128 or multiples of 128 that divide the
// group.
TEST(TileLayout, SpansDivideGroups) {
  const auto span_of = [](int64_t group, ColumnOrder order) {
    const auto data = test::matmul_data({.n = 1, .k = 1000, .group_size = group, .order = order});
    return tiles_shape(data.view()).scale_span;
  };
  for (const auto order : {ColumnOrder::kNatural, ColumnOrder::kActOrder}) {
    EXPECT_EQ(span_of(16, order), 16);
    EXPECT_EQ(span_of(48, order), 16);
    EXPECT_EQ(span_of(96, order), 32);
    EXPECT_EQ(span_of(64, order), 64);
    EXPECT_EQ(span_of(128, order), 128);
    EXPECT_EQ(span_of(192, order), 64);
    EXPECT_EQ(span_of(384, order), 384);
  }
  EXPECT_EQ(span_of(-1, ColumnOrder::kNatural), 1024);
  EXPECT_EQ(span_of(4096, ColumnOrder::kNatural), 1024);
}

TEST(TileLayout, ThreadsChangeNothing) {
  const auto data = test::matmul_data(
      {.n = 200, .k = 300, .bits = 3, .group_size = 32, .order = ColumnOrder::kActOrder});
  const PackedMatrix expected(data.view());
  const int before = omp_get_max_threads();
  omp_set_num_threads(3);
  const PackedMatrix packed(data.view());
  omp_set_num_threads(before);
  EXPECT_EQ(
      std::memcmp(packed.data(), expected.data(), static_cast<size_t>(expected.bytes().total())),
      0);
}

TEST(TileLayout, RefusalsNameWhatAndWhere) {
  const auto refused = [](const QuantView& view) {
    const std::string reason = tiles_refusal(view);
    for (const char* layout : {"tiles", "rows"})
      EXPECT_EQ(test::message_of([&] { PackedMatrix(view, layout); }), "[packed weight] " + reason);
    return reason;
  };
  const MatmulCase of{.n = 3, .k = 40, .group_size = 16, .order = ColumnOrder::kActOrder};
  const MatmulData good = test::matmul_data(of);
  EXPECT_EQ(tiles_refusal(good.view()), "");

  auto data = good;
  data.codes[2 * 40 + 7] = 16;
  EXPECT_EQ(refused(data.view()), "codes[row 2, column 7]: expected at most 15, got 16");
  data = good;
  data.zeros[3 + 1] = 200;
  EXPECT_EQ(refused(data.view()), "zeros[row 1, group 1]: expected at most 15, got 200");
  data = good;
  data.scales[2] = 1e6F;
  EXPECT_EQ(refused(data.view()),
            "scales[row 0, group 2]: expected a finite number that float16 holds, got 1e+06");
  data.scales[2] = NAN;
  EXPECT_THAT(refused(data.view()), HasSubstr("got nan"));
  data.scales[2] = 1e-9F;
  EXPECT_THAT(refused(data.view()), HasSubstr("scales[row 0, group 2]"));
  data = good;
  data.group_of_input[39] = 3;
  EXPECT_EQ(refused(data.view()), "group_of_input[column 39]: expected 0 to 2, got 3");
  QuantView view = good.view();
  view.bits = 5;
  EXPECT_EQ(refused(view), "bits: expected 2, 3, 4 or 8, got 5");
  view = good.view();
  view.group_size = 24;
  EXPECT_EQ(refused(view),
            "group_size: expected a multiple of 16, or -1 for one group a row, got 24");
  view = good.view();
  view.group_of_input = nullptr;
  view.groups = 2;
  EXPECT_EQ(refused(view), "groups: expected 3 of 40 columns, got 2");
  view = good.view();
  view.columns = 0;
  EXPECT_THAT(refused(view), HasSubstr("expected a row and a column or more, got 3 x 0"));
}

}  // namespace
}  // namespace gptqb::kernels
