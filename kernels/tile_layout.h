// The packed layout "tiles", which all CUDA kernels read.
//
// Rows are padded to strips of 32, columns to blocks of 128. A tile is one strip by one block; the
// tiles of a strip follow each other by block, strips follow each other:
//
//   codes:  [strips][blocks][2 warps][chunks][32 lanes][words of a chunk] u32
//   scales: [strips][scale spans][8][4] f16    zeros: the same, u8
//
// Inside a tile, warp w owns rows 16w .. 16w + 15 and each lane holds what it feeds to the tensor
// cores: for each of the 8 steps s of 16 columns, the operand A of an m16n8k16 product (PTX ISA,
// "Matrix fragments for mma.m16n8k16"; wgmma with A in registers takes the same). With g = lane / 4
// and c = lane % 4 its four registers hold the column pairs
//
//   a0: row g,     columns 16s + 2c, + 1          a2: row g,     columns 16s + 8 + 2c, + 1
//   a1: row g + 8, columns 16s + 2c, + 1          a3: row g + 8, columns 16s + 8 + 2c, + 1
//
// A pair's codes lie in the two halves of a 32-bit word, the even column in the lower one, at the
// same position p: bits p .. p + bits - 1 of each half. Read in place as a float16 with nothing
// above it, a code at position p is the number code * 2^(p - 24), exactly (a subnormal one): no
// conversion is needed, only a mask, and for positions from 10 - bits on a shift. So all registers
// of one step share a position. A lane has 2 * bits words a tile, of 32 pairs:
//
//   8 bits: words 2s and 2s + 1 are step s: a0 = word 2s at 0, a1 = word 2s + 1 at 0, a2 = word 2s
//           at 8, a3 = word 2s + 1 at 8.
//   4 bits: words 2t and 2t + 1 are steps 2t and 2t + 1: with p = 0 and 4 for the two steps,
//           a0 = word 2t at p, a1 = word 2t + 1 at p, a2 = word 2t at p + 8, a3 the other there.
//   2 bits: words 2t and 2t + 1 are steps 4t .. 4t + 3, at p = 0, 2, 4, 6 in the same way.
//   3 bits: words 0, 1, 2 are row g, words 3, 4, 5 row g + 8. With W the three words of a row and
//           (lower, upper) the row's pairs at columns 16s + 2c and 16s + 8 + 2c:
//             steps 0, 1, 2: W[s] at 0 and at 9        steps 3, 4, 5: W[s - 3] at 3 and at 12
//             step 6: W[0] at 6 and W[1] at 6          step 7: W[2] at 6, and the 16th pair, whose
//             bits 0, 1, 2 are bit 15 of the halves of W[0], W[1], W[2].
//
// Words go to memory in chunks of 4 a lane (16 bytes, so that a warp reads 512 bytes in a row):
// 2 bits: one chunk; 4 bits: two; 8 bits: four; 3 bits: one chunk of words 0 .. 3, one of words 4
// and 5 (8 bytes a lane).
//
// Scales and zero points of rows g, g + 8, g + 16 and g + 24, which are those of lane 4 g + c,
// follow each other.
//
// Padding: codes 0, zeros 0 (asymmetric), scales 0. A padded column meets an activation of 0.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/host_device.h"
#include "kernels/packed_weight.h"
#include "kernels/packing.h"
#include "kernels/quant_view.h"

namespace gptqb::kernels {

constexpr int64_t kTileRows = 32;
constexpr int64_t kTileColumns = 128;

// Where the scale of a row of a strip lies among its 32.
GPTQB_HOST_DEVICE constexpr int64_t tile_scale_place(int64_t row) { return row % 8 * 4 + row / 8; }

// Words of one tile.
constexpr int64_t tile_words(int64_t bits) { return kTileRows * kTileColumns * bits / 32; }

// packing_refusal() (kernels/packing.h).
std::string tiles_refusal(const QuantView& view);

// How `view` is laid out: packed_shape().
PackedShape tiles_shape(const QuantView& view);
PackedBytes tiles_bytes(const PackedShape& shape);

// Writes all parts, padding included; in parallel over strips. `out` points to writable host memory
// of tiles_bytes(), codes 16-byte aligned. Throws Error with tiles_refusal(), after which it may
// hold anything: codes are looked at as they are packed.
void pack_tiles(const QuantView& view, const PackedShape& shape, const PackedParts& out);

// The inverse.
void unpack_tiles(const PackedView& view, const CanonicalParts& out);

}  // namespace gptqb::kernels
