// The packed layout "rows", which CPU kernels read: one stream of memory, from which codes come by
// a shift and a mask.
//
// Rows are padded to strips of 4, columns to a multiple of 128 (3 bits: 256). 16 packed columns in
// a row are a slot; code i of a slot lies in lane i of a vector of 16 lanes of 16 bits. The vectors
// of a strip's rows alternate:
//
//   codes:  [strips][vectors of a row][4 rows][16 lanes] u16
//   scales: [strips][scale spans][4] f16       zeros: the same, u8
//
// A vector holds slots one after the other, each at a position of all lanes, from the lowest bit:
//
//   8 bits: 2 slots, at 0 and 8      4 bits: 4, at 0, 4, 8, 12      2 bits: 8, at 0, 2, .. 14
//   3 bits: 5, at 0, 3, 6, 9, 12. Three vectors are 15 slots in this way; bit i of the codes of the
//           16th is bit 15 of vector i.
//
// Padding: codes 0, zeros 0 (asymmetric), scales 0.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/packed_weight.h"
#include "kernels/packing.h"
#include "kernels/quant_view.h"

namespace gptqb::kernels {

constexpr int64_t kRowStrip = 4;
constexpr int64_t kRowLanes = 16;

// Columns that whole vectors hold, the smallest piece that a kernel works on.
constexpr int64_t row_unit(int64_t bits) { return bits == 3 ? 256 : 128; }
constexpr int64_t row_unit_vectors(int64_t bits) { return bits == 3 ? 3 : bits / 2; }

// How `view` is laid out: packed_shape().
PackedShape rows_shape(const QuantView& view);
PackedBytes rows_bytes(const PackedShape& shape);

// As pack_tiles() and unpack_tiles(); codes 32-byte aligned.
void pack_rows(const QuantView& view, const PackedShape& shape, const PackedParts& out);
void unpack_rows(const PackedView& view, const CanonicalParts& out);

}  // namespace gptqb::kernels
