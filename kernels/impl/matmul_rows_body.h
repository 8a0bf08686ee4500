// The body of `cpu_rows`, for the instruction set of the file that includes this. It defines before
//   GPTQB_LEVEL                          attributes of every function here
//   add_products(sums, codes, inputs)    sums[j] += codes[2j] inputs[2j] + codes[2j+1] inputs[2j+1]
//   DigitSums                            sums of codes in bytes times digits of inputs; add(codes,
//                                        high, low) and add_to(sums)
//   widen_four(half bits, floats)        four float16, and widen_four(bytes, words)
// Vector types stay 32 bytes wide for every instruction set; the compiler splits them if need be.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/half_bits.h"
#include "kernels/impl/matmul_rows.h"

namespace gptqb::kernels {
namespace {

constexpr int kLanes = static_cast<int>(kRowLanes);
constexpr int kStrip = static_cast<int>(kRowStrip);
constexpr int kVectorBytes = 32;
// Largest activation as an integer: its digits, of 8 bits with a sign, are 127 and 127.
constexpr float kMostFixed = 32639.F;

template <class Vector, class Value>
GPTQB_LEVEL [[gnu::always_inline]] inline void broadcast(Value value, Vector& out) {
  out = Vector{value, value, value, value, value, value, value, value};
}

// ---- activations ----

// The bits of eight activations from `from` on, of packed columns; 0 where there is none.
GPTQB_LEVEL inline void take_inputs(const MatmulArguments& arguments, const uint16_t* row,
                                    int64_t from, uint16_t* out) {
  const PackedShape& shape = arguments.weight.shape;
  if (!shape.ordered && from + kSumLanes <= shape.columns) {
    std::memcpy(out, row + from, kSumLanes * sizeof(uint16_t));
    return;
  }
  for (int64_t i = 0; i < kSumLanes; ++i) {
    const int64_t input = shape.ordered ? arguments.weight.input_order[from + i] : from + i;
    out[i] = input >= 0 && input < shape.columns ? row[input] : uint16_t{0};
  }
}

GPTQB_LEVEL inline void widen_inputs(HalfType type, const uint16_t* bits, RowFloats& out) {
  if (type == HalfType::kFloat16) {
    float values[kSumLanes];
    widen_four(bits, values);
    widen_four(bits + 4, values + 4);
    std::memcpy(&out, values, sizeof(out));
    return;
  }
  using Halves [[gnu::vector_size(16)]] = uint16_t;
  using Words [[gnu::vector_size(32)]] = uint32_t;
  Halves halves;
  std::memcpy(&halves, bits, sizeof(halves));
  const Words words = __builtin_convertvector(halves, Words) << 16;
  std::memcpy(&out, &words, sizeof(out));
}

// One chunk of at most 128 columns, written to `out` as FixedInputs says.
GPTQB_LEVEL inline void fix_chunk(const RowFloats* values, int64_t vectors, int32_t zero,
                                  std::byte* out) {
  RowSums largest{};  // of |x|, as bits: these are ordered as the numbers are, with NaN on top
  for (int64_t v = 0; v < vectors; ++v) {
    RowSums bits;
    std::memcpy(&bits, values + v, sizeof(bits));
    bits &= 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  int32_t top = 0;
  for (int lane = 0; lane < kSumLanes; ++lane) top = std::max<int32_t>(top, largest[lane]);
  constexpr int32_t kInfinity = 0x7f800000;
  constexpr float kLeast = 0x1p-96F;  // whose inverse float32 holds
  const float most = std::max(top < kInfinity ? std::bit_cast<float>(top) : 1.F, kLeast);
  const float step = top < kInfinity ? most / kMostFixed : std::numeric_limits<float>::quiet_NaN();
  const float inverse = kMostFixed / most;
  // Adding 1.5 x 2^23 rounds to an integer, in the lowest bits.
  constexpr float kShift = 12582912.F;
  for (int64_t v = 0; v < vectors; ++v) {
    using Halves [[gnu::vector_size(16)]] = int16_t;
    const RowFloats shifted = values[v] * inverse + kShift;
    RowSums whole;
    std::memcpy(&whole, &shifted, sizeof(whole));
    Halves halves = __builtin_convertvector(whole, Halves);
    if (top >= kInfinity) halves = Halves{};
    std::memcpy(out + v * static_cast<int64_t>(sizeof(halves)), &halves, sizeof(halves));
  }
  RowSums sums{};
  const RowLanes ones = RowLanes{} + 1;
  for (int64_t v = 0; v < vectors / 2; ++v) {
    RowInputs inputs;
    std::memcpy(&inputs, out + v * kVectorBytes, sizeof(inputs));
    add_products(sums, ones, inputs);
  }
  sums *= -zero;
  RowFloats steps;
  broadcast(step, steps);
  std::byte* const end = out + vectors / 2 * kVectorBytes;
  std::memcpy(end, &sums, sizeof(sums));
  std::memcpy(end + sizeof(sums), &steps, sizeof(steps));
}

// Makes the eight vectors of a chunk of 128 columns digits, as FixedInputs says.
GPTQB_LEVEL inline void split_digits(int64_t bits, std::byte* chunk) {
  auto* const x = reinterpret_cast<RowInputs*>(chunk);
  const int64_t slots = 16 / bits;  // of a vector of codes, half of them in a byte
  RowInputs digits[8];
  for (int64_t pair = 0; pair < 4; ++pair) {
    const int64_t slot = pair / (slots / 2) * slots + pair % (slots / 2);
    const RowInputs lower = x[slot];
    const RowInputs upper = x[slot + slots / 2];
    const RowInputs lower_high = (lower + 128) >> 8;
    const RowInputs upper_high = (upper + 128) >> 8;
    digits[pair] = (lower_high & 255) | upper_high << 8;
    digits[pair + 4] = (lower & 255) | upper << 8;
  }
  std::copy(digits, digits + 8, x);
}

GPTQB_LEVEL void fix_group(const MatmulArguments& arguments, const FixedInputs& inputs,
                           int64_t token) {
  const PackedShape& shape = arguments.weight.shape;
  const int32_t zero = shape.symmetric ? 1 << (shape.bits - 1) : 1;
  const int64_t group = inputs.group(token);
  const int64_t vectors = inputs.chunk / kSumLanes;
  std::byte* out = inputs.memory + token * inputs.chunks() * inputs.chunk_bytes();
  RowFloats values[128 / kSumLanes];
  for (int64_t from = 0; from < inputs.columns; from += inputs.chunk) {
    for (int64_t t = 0; t < group; ++t) {
      const auto* const row =
          static_cast<const uint16_t*>(arguments.x) + (inputs.first + token + t) * shape.columns;
      for (int64_t v = 0; v < vectors; ++v) {
        uint16_t bits[kSumLanes];
        take_inputs(arguments, row, from + v * kSumLanes, bits);
        widen_inputs(arguments.type, bits, values[v]);
      }
      fix_chunk(values, vectors, zero, out);
      if (inputs.digits(group)) split_digits(shape.bits, out);
      out += inputs.chunk_bytes();
    }
  }
}

// ---- product ----

// Codes of slot `slot` of a unit; `unit`: the row's first vector of it.
template <int kBits>
GPTQB_LEVEL [[gnu::always_inline]] inline void take_slot(const RowLanes* unit, int slot,
                                                         RowLanes& codes) {
  constexpr int kSlots = 16 / kBits;
  constexpr auto kMask = static_cast<uint16_t>((1U << kBits) - 1);
  if (kBits == 3 && slot == 15) {
    codes = unit[0] >> 15 | (unit[kStrip] >> 14 & 2) | (unit[2 * kStrip] >> 13 & 4);
    return;
  }
  const int position = slot % kSlots * kBits;
  codes = unit[slot / kSlots * kStrip] >> position;
  if (position + kBits < 16) codes &= kMask;
}

// What a unit of a strip needs beside codes, for each chunk and row.
struct Grids {
  static constexpr int kMost = 16 * kStrip;
  alignas(16) float scales[kMost];
  alignas(16) int32_t zeros[kMost];
};

template <int kChunkSlots>
constexpr int kChunkBytes = (kChunkSlots + 2) * kVectorBytes;

// Where FixedInputs are digits: codes in bytes, two rows of slots at a time.
template <int kBits>
GPTQB_LEVEL [[gnu::always_inline]] inline void add_digits(const RowLanes* unit,
                                                          const std::byte* chunk, RowSums& sums) {
  constexpr int kTogether = 8 / kBits;
  constexpr auto kMask = static_cast<uint16_t>(((1U << kBits) - 1) * 0x101U);
  const auto* const digits = reinterpret_cast<const RowInputs*>(chunk);
  DigitSums products;
#pragma GCC unroll 4
  for (int pair = 0; pair < 4; ++pair) {
    const RowLanes codes = unit[pair / kTogether * kStrip] >> (pair % kTogether * kBits) & kMask;
    products.add(codes, digits[pair], digits[pair + 4]);
  }
  products.add_to(sums);
}

// kRows rows of a strip times kTokens tokens, `totals` [kRows][kTokens]. kPlain: zero points are in
// the offsets already.
template <int kBits, int kChunkSlots, int kRows, int kTokens, bool kPlain>
GPTQB_LEVEL [[gnu::always_inline]] inline void add_unit(const RowLanes* unit, const Grids& grids,
                                                        const std::byte* inputs, int row,
                                                        RowFloats* totals) {
  constexpr auto kSlots = static_cast<int>(row_unit(kBits)) / kLanes;
  constexpr int kBytes = kChunkBytes<kChunkSlots>;
  using Four [[gnu::vector_size(16), gnu::may_alias]] = float;
#pragma GCC unroll 16
  for (int chunk = 0; chunk < kSlots / kChunkSlots; ++chunk) {
    // Of the chunk's first token: its vectors of x, then the offsets, then the step.
    const std::byte* const from = inputs + chunk * kTokens * kBytes;
    RowSums sums[kRows * kTokens];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      RowSums zero;
      broadcast(grids.zeros[chunk * kStrip + row + r], zero);
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        sums[r * kTokens + t] =
            *reinterpret_cast<const RowSums*>(from + t * kBytes + kChunkSlots * kVectorBytes);
        if (!kPlain) sums[r * kTokens + t] *= zero;
      }
    }
    if constexpr (kTokens == 1 && has_digits(kBits, kChunkSlots * kLanes)) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) add_digits<kBits>(unit + r, from, sums[r]);
    } else {
#pragma GCC unroll 16
      for (int slot = 0; slot < kChunkSlots; ++slot) {
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          RowLanes codes;
          take_slot<kBits>(unit + r, chunk * kChunkSlots + slot, codes);
#pragma GCC unroll 4
          for (int t = 0; t < kTokens; ++t)
            add_products(
                sums[r * kTokens + t], codes,
                *reinterpret_cast<const RowInputs*>(from + t * kBytes + slot * kVectorBytes));
        }
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kTokens; ++t) {
      const Four steps =
          *reinterpret_cast<const Four*>(from + t * kBytes + (kChunkSlots + 1) * kVectorBytes);
      const Four scales = *reinterpret_cast<const Four*>(grids.scales + chunk * kStrip) * steps;
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        RowFloats scale;
        broadcast(scales[row + r], scale);
        totals[r * kTokens + t] +=
            __builtin_convertvector(sums[r * kTokens + t], RowFloats) * scale;
      }
    }
  }
}

// Where the next unit's scales are.
struct GridCursor {
  int64_t at;      // of the scale span's, in the packed parts
  int64_t chunks;  // of 128 columns in a span, if that is longer than one
  int64_t met = 0;
};

// Scales and zeros of the next unit of a strip.
template <int kBits, int kChunkSlots>
GPTQB_LEVEL [[gnu::always_inline]] inline void take_grids(const PackedView& weight,
                                                          GridCursor& cursor, Grids& grids) {
  constexpr auto kChunks = static_cast<int>(row_unit(kBits)) / (kChunkSlots * kLanes);
#pragma GCC unroll 16
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    widen_four(weight.scales + cursor.at, grids.scales + chunk * kStrip);
    if (!weight.shape.symmetric) widen_four(weight.zeros + cursor.at, grids.zeros + chunk * kStrip);
    // A span is one chunk, or several of 128 columns.
    if (kChunkSlots < 8 || ++cursor.met == cursor.chunks) {
      cursor.at += kStrip;
      cursor.met = 0;
    }
  }
}

GPTQB_LEVEL inline void finish(const MatmulArguments& arguments, int64_t row, int64_t token,
                               const RowFloats& total) {
  const PackedShape& shape = arguments.weight.shape;
  if (row >= shape.rows) return;
  float sum = ((total[0] + total[4]) + (total[2] + total[6])) +
              ((total[1] + total[5]) + (total[3] + total[7]));
  if (arguments.bias != nullptr)
    sum += float_of(arguments.type, static_cast<const uint16_t*>(arguments.bias)[row]);
  static_cast<uint16_t*>(arguments.y)[token * shape.rows + row] = bits_of(arguments.type, sum);
}

// Asks for the unit that lies 2 KiB further on, perhaps in the next strip: the processor's own
// prefetching, which stops at each page, does not keep memory busy.
template <int kBits>
GPTQB_LEVEL [[gnu::always_inline]] inline void prefetch_unit(const RowLanes* unit) {
  constexpr int64_t kAhead = 2048;
  constexpr int64_t kBytes = row_unit_vectors(kBits) * kStrip * kVectorBytes;
  const auto* const from = reinterpret_cast<const char*>(unit) + kAhead;
#pragma GCC unroll 8
  for (int64_t line = 0; line < kBytes; line += 64) __builtin_prefetch(from + line);
}

// Columns whose activations, of four tokens 10 KiB, stay in the first-level cache from one row of a
// strip to the next.
constexpr int64_t kBlockColumns = 1024;

template <int kBits, int kChunkSlots, int kRows, int kTokens, bool kPlain>
GPTQB_LEVEL void multiply_strip(const MatmulArguments& arguments, const FixedInputs& inputs,
                                int64_t strip, int64_t token) {
  const PackedView& weight = arguments.weight;
  const PackedShape& shape = weight.shape;
  const auto* const codes = reinterpret_cast<const RowLanes*>(weight.codes) +
                            strip * kStrip * shape.packed_columns * kBits / 256;
  Grids grids;
  std::fill(grids.zeros, grids.zeros + Grids::kMost, 1);  // stays, where offsets have the zeros
  GridCursor start{.at = strip * shape.scale_spans() * kStrip,
                   .chunks = shape.scale_span / (kChunkSlots * kLanes)};
  const std::byte* inputs_start = inputs.memory + token * inputs.chunks() * inputs.chunk_bytes();
  RowFloats totals[kStrip * kTokens] = {};
  for (int64_t first = 0; first < shape.packed_columns; first += kBlockColumns) {
    const int64_t columns = std::min(kBlockColumns, shape.packed_columns - first);
    GridCursor cursor = start;
    const std::byte* chunk = inputs_start;
    for (int row = 0; row < kStrip; row += kRows) {
      RowFloats sums[kRows * kTokens];
#pragma GCC unroll 4
      for (int i = 0; i < kRows * kTokens; ++i) sums[i] = totals[row * kTokens + i];
      const RowLanes* unit =
          codes + first / row_unit(kBits) * row_unit_vectors(kBits) * kStrip + row;
      cursor = start;
      chunk = inputs_start;
      for (int64_t column = 0; column < columns; column += row_unit(kBits)) {
        if constexpr (kRows == kStrip) prefetch_unit<kBits>(unit);
        take_grids<kBits, kChunkSlots>(weight, cursor, grids);
        add_unit<kBits, kChunkSlots, kRows, kTokens, kPlain>(unit, grids, chunk, row, sums);
        chunk += row_unit(kBits) / (kChunkSlots * kLanes) * kTokens * kChunkBytes<kChunkSlots>;
        unit += row_unit_vectors(kBits) * kStrip;
      }
#pragma GCC unroll 4
      for (int i = 0; i < kRows * kTokens; ++i) totals[row * kTokens + i] = sums[i];
    }
    start = cursor;
    inputs_start = chunk;
  }
  for (int r = 0; r < kStrip; ++r)
    for (int t = 0; t < kTokens; ++t)
      finish(arguments, strip * kStrip + r, inputs.first + token + t, totals[r * kTokens + t]);
}

template <int kBits, int kChunkSlots>
GPTQB_LEVEL void multiply_strips(const MatmulArguments& arguments, const FixedInputs& inputs,
                                 int64_t first, int64_t last) {
  for (int64_t strip = first; strip < last; ++strip) {
    for (int64_t token = 0; token < inputs.tokens; token += inputs.group(token)) {
      const int64_t group = inputs.group(token);
      if (group == 4)
        multiply_strip<kBits, kChunkSlots, 1, 4, false>(arguments, inputs, strip, token);
      else if (group == 2)
        multiply_strip<kBits, kChunkSlots, 2, 2, false>(arguments, inputs, strip, token);
      else if (arguments.weight.shape.symmetric)
        multiply_strip<kBits, kChunkSlots, 4, 1, true>(arguments, inputs, strip, token);
      else
        multiply_strip<kBits, kChunkSlots, 4, 1, false>(arguments, inputs, strip, token);
    }
  }
}

template <int kBits>
GPTQB_LEVEL void multiply_bits(const MatmulArguments& arguments, const FixedInputs& inputs,
                               int64_t first, int64_t last) {
  switch (inputs.chunk) {
    case 16:
      return multiply_strips<kBits, 1>(arguments, inputs, first, last);
    case 32:
      return multiply_strips<kBits, 2>(arguments, inputs, first, last);
    case 64:
      return multiply_strips<kBits, 4>(arguments, inputs, first, last);
    default:
      return multiply_strips<kBits, 8>(arguments, inputs, first, last);
  }
}

GPTQB_LEVEL void multiply(const MatmulArguments& arguments, const FixedInputs& inputs,
                          int64_t first, int64_t last) {
  switch (arguments.weight.shape.bits) {
    case 2:
      return multiply_bits<2>(arguments, inputs, first, last);
    case 3:
      return multiply_bits<3>(arguments, inputs, first, last);
    case 4:
      return multiply_bits<4>(arguments, inputs, first, last);
    default:
      return multiply_bits<8>(arguments, inputs, first, last);
  }
}

}  // namespace
}  // namespace gptqb::kernels
