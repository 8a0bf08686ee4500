// Where a code of the layout "tiles" lies, bit by bit: the drawing in tile_layout.h as a function.
// Slow and obvious, for the oracles on both sides; fast code is tested against it.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/packed_weight.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {

// A bit of a tile: word 0 .. tile_words(bits) - 1, bit 0 .. 31 of it.
struct TileBit {
  int64_t word;
  int shift;
};

// Bit `bit` of the code at `row` and `column` of a tile.
GPTQB_HOST_DEVICE constexpr TileBit tile_bit(int64_t bits, int64_t row, int64_t column,
                                             int64_t bit) {
  // Which lane of which warp feeds it to the tensor cores, and in which register.
  const int64_t warp = row / 16;
  const int64_t lower_rows = row % 16 / 8;  // 1: the registers of row g + 8, a1 and a3
  const int64_t step = column / 16;
  const int64_t upper_pair = column % 16 / 8;  // 1: the registers of columns + 8, a2 and a3
  const int64_t lane = row % 8 * 4 + column % 8 / 2;
  const int64_t half = column % 2;

  // The word among the lane's 2 * bits, and the position in its half.
  int64_t word = 0;
  int64_t position = 0;
  if (bits == 3) {
    const int64_t pair = 2 * step + upper_pair;
    if (pair < 12) {  // steps 0 .. 5
      word = step % 3;
      position = 3 * (step / 3) + 9 * upper_pair;
    } else if (pair < 15) {  // step 6, and the first of step 7
      word = pair - 12;
      position = 6;
    } else {  // the 16th pair: one bit in each word
      word = bit;
      position = 15 - bit;
    }
    word += 3 * lower_rows;
  } else {
    const int64_t steps = 8 / bits;  // that share a pair of words
    word = step / steps * 2 + lower_rows;
    position = step % steps * bits + 8 * upper_pair;
  }

  // Where the lane's words lie: in chunks of 4, of which 3 bits have one and a half.
  const int64_t chunk = word / 4;
  const int64_t chunk_words = bits == 3 && chunk == 1 ? 2 : 4;
  const int64_t at = warp * 32 * 2 * bits + chunk * 32 * 4 + lane * chunk_words + word % 4;
  return {at, static_cast<int>(16 * half + position + bit)};
}

// The code at `row` and `column` of a packed matrix.
GPTQB_HOST_DEVICE constexpr int64_t tiles_code(const PackedShape& shape, const uint32_t* codes,
                                               int64_t row, int64_t column) {
  const int64_t tile =
      row / kTileRows * (shape.packed_columns / kTileColumns) + column / kTileColumns;
  const uint32_t* const words = codes + tile * tile_words(shape.bits);
  int64_t code = 0;
  for (int64_t bit = 0; bit < shape.bits; ++bit) {
    const TileBit at = tile_bit(shape.bits, row % kTileRows, column % kTileColumns, bit);
    code |= static_cast<int64_t>(words[at.word] >> at.shift & 1U) << bit;
  }
  return code;
}

// The index of the scale of (row, column), and of its zero point.
GPTQB_HOST_DEVICE constexpr int64_t tiles_scale_at(const PackedShape& shape, int64_t row,
                                                   int64_t column) {
  return (row / kTileRows * shape.scale_spans() + column / shape.scale_span) * kTileRows +
         tile_scale_place(row % kTileRows);
}

}  // namespace gptqb::kernels
