#include "kernels/tile_layout.h"

#include <atomic>
#include <cstring>
#include <memory>

#include "common/error.h"
#include "kernels/impl/parallel.h"
#include "kernels/transpose_words.h"

namespace gptqb::kernels {
namespace {

// Vectors of 16 bytes, which every x86-64 has: more would not help, memory is the limit.
using Halves [[gnu::vector_size(16)]] = uint16_t;  // the halves of four words, of lanes c = 0 .. 3
using FewBytes [[gnu::vector_size(8)]] = uint8_t;

// The codes of a row and a step: columns 0 .. 7 (pairs of c = 0 .. 3), and 8 .. 15.
struct StepPairs {
  Halves lower, upper;
};

[[gnu::always_inline]] inline StepPairs load_step(const uint8_t* codes) {
  FewBytes lower;
  FewBytes upper;
  std::memcpy(&lower, codes, sizeof(lower));
  std::memcpy(&upper, codes + 8, sizeof(upper));
  return {__builtin_convertvector(lower, Halves), __builtin_convertvector(upper, Halves)};
}

[[gnu::always_inline]] inline void store_step(const StepPairs& pairs, uint8_t* codes) {
  const FewBytes lower = __builtin_convertvector(pairs.lower, FewBytes);
  const FewBytes upper = __builtin_convertvector(pairs.upper, FewBytes);
  std::memcpy(codes, &lower, sizeof(lower));
  std::memcpy(codes + 8, &upper, sizeof(upper));
}

constexpr int64_t kSteps = kTileColumns / 16;

// The words of one row of a tile, `words` apart: of row g, or of row g + 8 from words[1] (3 bits:
// words[3]).
template <int kBits>
[[gnu::always_inline]] inline void pack_row(const uint8_t* codes, Halves* words) {
  if constexpr (kBits == 3) {
    StepPairs steps[kSteps];
#pragma GCC unroll 8
    for (int64_t s = 0; s < kSteps; ++s) steps[s] = load_step(codes + 16 * s);
    const Halves middle[3] = {steps[6].lower, steps[6].upper, steps[7].lower};
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i)
      words[i] = steps[i].lower | steps[i + 3].lower << 3 | middle[i] << 6 | steps[i].upper << 9 |
                 steps[i + 3].upper << 12 | (steps[7].upper >> i & 1) << 15;
  } else {
    constexpr int kTogether = 8 / kBits;  // steps of a word
#pragma GCC unroll 8
    for (int t = 0; t < kBits; ++t) {
      Halves word{};
#pragma GCC unroll 4
      for (int s = 0; s < kTogether; ++s) {
        const StepPairs pairs = load_step(codes + 16 * (kTogether * t + s));
        word |= pairs.lower << (kBits * s) | pairs.upper << (kBits * s + 8);
      }
      words[2 * t] = word;
    }
  }
}

template <int kBits>
[[gnu::always_inline]] inline void unpack_row(const Halves* words, uint8_t* codes) {
  if constexpr (kBits == 3) {
    StepPairs last[2];  // steps 6 and 7
    last[0] = {words[0] >> 6 & 7, words[1] >> 6 & 7};
    last[1] = {words[2] >> 6 & 7, words[0] >> 15 | words[1] >> 15 << 1 | words[2] >> 15 << 2};
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
      store_step({words[i] & 7, words[i] >> 9 & 7}, codes + 16 * i);
      store_step({words[i] >> 3 & 7, words[i] >> 12 & 7}, codes + 16 * (i + 3));
    }
    store_step(last[0], codes + 16 * 6);
    store_step(last[1], codes + 16 * 7);
  } else {
    constexpr int kTogether = 8 / kBits;
    constexpr auto kMask = static_cast<uint16_t>((1U << kBits) - 1);
#pragma GCC unroll 8
    for (int t = 0; t < kBits; ++t) {
#pragma GCC unroll 4
      for (int s = 0; s < kTogether; ++s)
        store_step({words[2 * t] >> (kBits * s) & kMask, words[2 * t] >> (kBits * s + 8) & kMask},
                   codes + 16 * (kTogether * t + s));
    }
  }
}

constexpr int64_t kChunkWords = int64_t{32} * 4;  // of a warp, where a lane has four words
// Where the second row's words start among a lane's, and how far apart they are.
template <int kBits>
constexpr int kSecondRow = kBits == 3 ? 3 : 1;

// Rows g and g + 8 of a warp over all blocks; `out`: the words of lane 4g in the first tile.
template <int kBits>
void pack_pair(const uint8_t* first, const uint8_t* second, int64_t blocks, int64_t g,
               uint32_t* warp) {
  for (int64_t block = 0; block < blocks; ++block) {
    Words words[2 * kBits];
    auto* const halves = reinterpret_cast<Halves*>(words);
    pack_row<kBits>(first + block * kTileColumns, halves);
    pack_row<kBits>(second + block * kTileColumns, halves + kSecondRow<kBits>);
    uint32_t* const tile = warp + block * tile_words(kBits);
#pragma GCC unroll 4
    for (int chunk = 0; chunk < kBits / 2; ++chunk) {
      transpose(words + 4 * chunk);
      std::memcpy(tile + chunk * kChunkWords + 16 * g, words + 4 * chunk, 4 * sizeof(Words));
    }
    if constexpr (kBits == 3) {
      const Words pairs[2] = {__builtin_shuffle(words[4], words[5], Words{0, 4, 1, 5}),
                              __builtin_shuffle(words[4], words[5], Words{2, 6, 3, 7})};
      std::memcpy(tile + kChunkWords + 8 * g, pairs, sizeof(pairs));
    }
  }
}

template <int kBits>
void unpack_pair(const uint32_t* warp, int64_t blocks, int64_t g, uint8_t* first, uint8_t* second) {
  for (int64_t block = 0; block < blocks; ++block) {
    Words words[2 * kBits];
    const uint32_t* const tile = warp + block * tile_words(kBits);
#pragma GCC unroll 4
    for (int chunk = 0; chunk < kBits / 2; ++chunk) {
      std::memcpy(words + 4 * chunk, tile + chunk * kChunkWords + 16 * g, 4 * sizeof(Words));
      transpose(words + 4 * chunk);
    }
    if constexpr (kBits == 3) {
      Words pairs[2];
      std::memcpy(pairs, tile + kChunkWords + 8 * g, sizeof(pairs));
      words[4] = __builtin_shuffle(pairs[0], pairs[1], Words{0, 2, 4, 6});
      words[5] = __builtin_shuffle(pairs[0], pairs[1], Words{1, 3, 5, 7});
    }
    const auto* const halves = reinterpret_cast<const Halves*>(words);
    unpack_row<kBits>(halves, first + block * kTileColumns);
    unpack_row<kBits>(halves + kSecondRow<kBits>, second + block * kTileColumns);
  }
}

using PackPair = void (*)(const uint8_t*, const uint8_t*, int64_t, int64_t, uint32_t*);
using UnpackPair = void (*)(const uint32_t*, int64_t, int64_t, uint8_t*, uint8_t*);

PackPair pack_pair_of(int64_t bits) {
  if (bits == 2) return pack_pair<2>;
  if (bits == 3) return pack_pair<3>;
  return bits == 4 ? pack_pair<4> : pack_pair<8>;
}
UnpackPair unpack_pair_of(int64_t bits) {
  if (bits == 2) return unpack_pair<2>;
  if (bits == 3) return unpack_pair<3>;
  return bits == 4 ? unpack_pair<4> : unpack_pair<8>;
}

// Words from the packed codes' first to those of 16 rows, a warp's, in their strip's first tile.
int64_t warp_offset(const PackedShape& shape, int64_t row) {
  const int64_t strip = row / kTileRows * (shape.packed_columns / kTileColumns);
  return strip * tile_words(shape.bits) + row % kTileRows / 16 * 32 * 2 * shape.bits;
}

}  // namespace

std::string tiles_refusal(const QuantView& view) { return packing_refusal(view); }

PackedShape tiles_shape(const QuantView& view) {
  return packed_shape(view, kTileRows, kTileColumns);
}

PackedBytes tiles_bytes(const PackedShape& shape) { return packed_bytes(shape); }

void pack_tiles(const QuantView& view, const PackedShape& shape, const PackedParts& out) {
  const std::string reason = grids_refusal(view);
  if (!reason.empty()) throw Error(kPacking, reason);
  const std::vector<int32_t> stored = packed_order(view, shape);
  std::copy(stored.begin(), stored.end(), out.input_order);
  const int32_t* const order = shape.ordered ? stored.data() : nullptr;
  const std::vector<int32_t> groups = groups_of_spans(shape, order);
  const int64_t blocks = shape.packed_columns / kTileColumns;
  const bool as_they_are = !shape.ordered && shape.columns == shape.packed_columns;
  const PackPair pack = pack_pair_of(shape.bits);
  const int64_t part = part_length(shape.packed_rows / kTileRows, 8) * kTileRows;
  std::atomic<bool> beyond = false;
  parallel_parts(shape.packed_rows, part, [&](int64_t begin, int64_t end) {
    CodeOrder to_packed(shape, order);
    const std::unique_ptr<uint8_t[]> buffer(
        new uint8_t[static_cast<size_t>(CodeOrder::kRows * to_packed.stride())]);
    for (int64_t row = begin; row < end; row += CodeOrder::kRows) {
      const uint8_t* codes = view.codes + row * shape.columns;
      int64_t stride = shape.columns;
      const int64_t there = std::min(CodeOrder::kRows, shape.rows - row);
      if (any_code_beyond(view, row, there)) beyond = true;
      if (!as_they_are || row + CodeOrder::kRows > shape.rows) {
        to_packed.gather(codes, there, buffer.get());
        codes = buffer.get();
        stride = to_packed.stride();
      }
      for (int64_t g = 0; g < 8; ++g)
        pack(codes + g * stride, codes + (g + 8) * stride, blocks, g,
             out.codes + warp_offset(shape, row));
    }
    for (int64_t strip = begin / kTileRows; strip < end / kTileRows; ++strip)
      pack_grids(view, shape, groups, kTileRows, strip, tile_scale_place, out);
  });
  if (beyond) throw Error(kPacking, packing_refusal(view));
}

void unpack_tiles(const PackedView& view, const CanonicalParts& out) {
  const PackedShape& shape = view.shape;
  const int32_t* const order = shape.ordered ? view.input_order : nullptr;
  const std::vector<int32_t> groups = groups_of_spans(shape, order);
  const int64_t blocks = shape.packed_columns / kTileColumns;
  const bool as_they_are = !shape.ordered && shape.columns == shape.packed_columns;
  const UnpackPair unpack = unpack_pair_of(shape.bits);
  const int64_t part = part_length(shape.packed_rows / kTileRows, 8) * kTileRows;
  parallel_parts(shape.packed_rows, part, [&](int64_t begin, int64_t end) {
    CodeOrder from_packed(shape, order);
    const std::unique_ptr<uint8_t[]> buffer(
        new uint8_t[static_cast<size_t>(CodeOrder::kRows * from_packed.stride())]);
    for (int64_t row = begin; row < std::min(end, shape.rows); row += CodeOrder::kRows) {
      uint8_t* const codes = out.codes + row * shape.columns;
      const int64_t rows = std::min(CodeOrder::kRows, shape.rows - row);
      const bool direct = as_they_are && rows == CodeOrder::kRows;
      uint8_t* const to = direct ? codes : buffer.get();
      const int64_t stride = direct ? shape.columns : from_packed.stride();
      for (int64_t g = 0; g < 8; ++g)
        unpack(view.codes + warp_offset(shape, row), blocks, g, to + g * stride,
               to + (g + 8) * stride);
      if (!direct) from_packed.scatter(to, rows, codes);
    }
    for (int64_t strip = begin / kTileRows; strip < end / kTileRows; ++strip)
      unpack_grids(view, groups, kTileRows, strip, tile_scale_place, out);
  });
  if (out.group_of_input != nullptr) unpack_order(view, groups, out.group_of_input);
}

}  // namespace gptqb::kernels
