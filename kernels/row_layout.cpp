#include "kernels/row_layout.h"

#include <atomic>
#include <cstring>
#include <memory>

#include "common/error.h"
#include "kernels/impl/parallel.h"

namespace gptqb::kernels {
namespace {

using Bytes [[gnu::vector_size(16)]] = uint8_t;
using Lanes [[gnu::vector_size(32)]] = uint16_t;

[[gnu::always_inline]] inline void load_slot(const uint8_t* codes, Lanes& slot) {
  Bytes bytes;
  std::memcpy(&bytes, codes, sizeof(bytes));
  slot = __builtin_convertvector(bytes, Lanes);
}

[[gnu::always_inline]] inline void store_slot(const Lanes& slot, uint8_t* codes) {
  const Bytes bytes = __builtin_convertvector(slot, Bytes);
  std::memcpy(codes, &bytes, sizeof(bytes));
}

template <int kBits>
constexpr int kSlots = 16 / kBits;  // of a vector

// One unit of a row; `to`: its first vector in the strip, the next ones kRowStrip further on.
template <int kBits>
void pack_unit(const uint8_t* codes, Lanes* to) {
  constexpr auto kVectors = static_cast<int>(row_unit_vectors(kBits));
  Lanes last{};  // 3 bits: the slot that is spread over three vectors
  if constexpr (kBits == 3) load_slot(codes + 15 * kRowLanes, last);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    Lanes vector{};
#pragma GCC unroll 8
    for (int s = 0; s < kSlots<kBits>; ++s) {
      Lanes slot;
      load_slot(codes + (v * kSlots<kBits> + s) * kRowLanes, slot);
      vector |= slot << (kBits * s);
    }
    if constexpr (kBits == 3) vector |= last >> v << 15;
    std::memcpy(to + v * kRowStrip, &vector, sizeof(vector));
  }
}

template <int kBits>
void unpack_unit(const Lanes* from, uint8_t* codes) {
  constexpr auto kVectors = static_cast<int>(row_unit_vectors(kBits));
  constexpr auto kMask = static_cast<uint16_t>((1U << kBits) - 1);
  Lanes last{};
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    Lanes vector;
    std::memcpy(&vector, from + v * kRowStrip, sizeof(vector));
#pragma GCC unroll 8
    for (int s = 0; s < kSlots<kBits>; ++s)
      store_slot(vector >> (kBits * s) & kMask, codes + (v * kSlots<kBits> + s) * kRowLanes);
    if constexpr (kBits == 3) last |= vector >> 15 << v;
  }
  if constexpr (kBits == 3) store_slot(last, codes + 15 * kRowLanes);
}

template <int kBits>
void pack_row(const uint8_t* codes, int64_t columns, void* to) {
  for (int64_t unit = 0; unit < columns / row_unit(kBits); ++unit)
    pack_unit<kBits>(codes + unit * row_unit(kBits),
                     static_cast<Lanes*>(to) + unit * row_unit_vectors(kBits) * kRowStrip);
}

template <int kBits>
void unpack_row(const void* from, int64_t columns, uint8_t* codes) {
  for (int64_t unit = 0; unit < columns / row_unit(kBits); ++unit)
    unpack_unit<kBits>(static_cast<const Lanes*>(from) + unit * row_unit_vectors(kBits) * kRowStrip,
                       codes + unit * row_unit(kBits));
}

using PackRow = void (*)(const uint8_t*, int64_t, void*);
using UnpackRow = void (*)(const void*, int64_t, uint8_t*);

PackRow pack_row_of(int64_t bits) {
  if (bits == 2) return pack_row<2>;
  if (bits == 3) return pack_row<3>;
  return bits == 4 ? pack_row<4> : pack_row<8>;
}
UnpackRow unpack_row_of(int64_t bits) {
  if (bits == 2) return unpack_row<2>;
  if (bits == 3) return unpack_row<3>;
  return bits == 4 ? unpack_row<4> : unpack_row<8>;
}

// Bytes from the first vector of the packed codes to the first one of a row.
int64_t row_offset(const PackedShape& shape, int64_t row) {
  const int64_t strip_bytes = kRowStrip * shape.packed_columns * shape.bits / 8;
  return row / kRowStrip * strip_bytes + row % kRowStrip * static_cast<int64_t>(sizeof(Lanes));
}

int64_t in_order(int64_t row) { return row; }

}  // namespace

PackedShape rows_shape(const QuantView& view) {
  return packed_shape(view, kRowStrip, row_unit(view.bits));
}

PackedBytes rows_bytes(const PackedShape& shape) { return packed_bytes(shape); }

void pack_rows(const QuantView& view, const PackedShape& shape, const PackedParts& out) {
  const std::string reason = grids_refusal(view);
  if (!reason.empty()) throw Error(kPacking, reason);
  const std::vector<int32_t> stored = packed_order(view, shape);
  std::copy(stored.begin(), stored.end(), out.input_order);
  const int32_t* const order = shape.ordered ? stored.data() : nullptr;
  const std::vector<int32_t> groups = groups_of_spans(shape, order);
  const bool as_they_are = !shape.ordered && shape.columns == shape.packed_columns;
  const PackRow pack = pack_row_of(shape.bits);
  const int64_t part = part_length(shape.packed_rows / CodeOrder::kRows, 8) * CodeOrder::kRows;
  std::atomic<bool> beyond = false;
  parallel_parts(shape.packed_rows, part, [&](int64_t begin, int64_t end) {
    CodeOrder to_packed(shape, order);
    const std::unique_ptr<uint8_t[]> buffer(
        new uint8_t[static_cast<size_t>(CodeOrder::kRows * to_packed.stride())]);
    for (int64_t first = begin; first < end; first += CodeOrder::kRows) {
      const uint8_t* codes = view.codes + first * shape.columns;
      int64_t stride = shape.columns;
      const int64_t there = std::min(CodeOrder::kRows, shape.rows - first);
      if (any_code_beyond(view, first, there)) beyond = true;
      if (!as_they_are || first + CodeOrder::kRows > shape.rows) {
        to_packed.gather(codes, there, buffer.get());
        codes = buffer.get();
        stride = to_packed.stride();
      }
      for (int64_t row = first; row < std::min(first + CodeOrder::kRows, end); ++row)
        pack(codes + (row - first) * stride, shape.packed_columns,
             reinterpret_cast<uint8_t*>(out.codes) + row_offset(shape, row));
    }
    for (int64_t strip = begin / kRowStrip; strip < end / kRowStrip; ++strip)
      pack_grids(view, shape, groups, kRowStrip, strip, in_order, out);
  });
  if (beyond) throw Error(kPacking, packing_refusal(view));
}

void unpack_rows(const PackedView& view, const CanonicalParts& out) {
  const PackedShape& shape = view.shape;
  const int32_t* const order = shape.ordered ? view.input_order : nullptr;
  const std::vector<int32_t> groups = groups_of_spans(shape, order);
  const bool as_they_are = !shape.ordered && shape.columns == shape.packed_columns;
  const UnpackRow unpack = unpack_row_of(shape.bits);
  const int64_t part = part_length(shape.packed_rows / CodeOrder::kRows, 8) * CodeOrder::kRows;
  parallel_parts(shape.packed_rows, part, [&](int64_t begin, int64_t end) {
    CodeOrder from_packed(shape, order);
    const std::unique_ptr<uint8_t[]> buffer(
        new uint8_t[static_cast<size_t>(CodeOrder::kRows * from_packed.stride())]);
    for (int64_t first = begin; first < std::min(end, shape.rows); first += CodeOrder::kRows) {
      const int64_t rows = std::min(CodeOrder::kRows, shape.rows - first);
      uint8_t* const codes = out.codes + first * shape.columns;
      uint8_t* const to = as_they_are ? codes : buffer.get();
      const int64_t stride = as_they_are ? shape.columns : from_packed.stride();
      for (int64_t row = first; row < first + rows; ++row)
        unpack(reinterpret_cast<const uint8_t*>(view.codes) + row_offset(shape, row),
               shape.packed_columns, to + (row - first) * stride);
      if (!as_they_are) from_packed.scatter(to, rows, codes);
    }
    for (int64_t strip = begin / kRowStrip; strip < end / kRowStrip; ++strip)
      unpack_grids(view, groups, kRowStrip, strip, in_order, out);
  });
  if (out.group_of_input != nullptr) unpack_order(view, groups, out.group_of_input);
}

}  // namespace gptqb::kernels
