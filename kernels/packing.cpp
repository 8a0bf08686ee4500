#include "kernels/packing.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "common/error.h"
#include "common/round_up.h"
#include "common/text.h"
#include "kernels/half_bits.h"
#include "kernels/impl/parallel.h"

namespace gptqb::kernels {
namespace {

bool one_group(const QuantView& view) {
  return view.group_size == -1 || view.group_size >= view.columns;
}

// Whether columns lie in groups as group_size says; then group_of_input tells nothing.
bool natural(const QuantView& view) {
  if (view.group_of_input == nullptr) return true;
  for (int64_t i = 0; i < view.columns; ++i)
    if (view.group_of_input[i] != (one_group(view) ? 0 : i / view.group_size)) return false;
  return view.groups == (one_group(view) ? 1 : (view.columns - 1) / view.group_size + 1);
}

std::string place(const char* name, int64_t row, int64_t column, const char* second) {
  return std::string(name) + "[row " + std::to_string(row) + ", " + second + " " +
         std::to_string(column) + "]: ";
}

// Where the first value of a matrix is that `bad` picks, or -1. In parallel: this reads every code.
// `suspect` is 0 for most that are good, and quick: whole parts of them are not looked at again.
template <class Value, class Suspect, class Bad>
int64_t first_where(const Value* values, int64_t rows, int64_t columns, const Suspect& suspect,
                    const Bad& bad) {
  constexpr int64_t kRows = 16;
  const int64_t all = rows * columns;
  std::atomic<int64_t> first = all;
  parallel_parts(rows, kRows, [&](int64_t begin, int64_t end) {
    const Value* const part = values + begin * columns;
    const int64_t count = (end - begin) * columns;
    decltype(suspect(*part)) any{};
    for (int64_t i = 0; i < count; ++i) any |= suspect(part[i]);
    if (any == 0) return;
    const int64_t at = std::find_if(part, part + count, bad) - part;
    if (at == count) return;
    int64_t known = first.load();
    while (begin * columns + at < known &&
           !first.compare_exchange_weak(known, begin * columns + at)) {
    }
  });
  return first == all ? -1 : first.load();
}

// Not 0 for what is no normal number of float16: 11 bits from 2^-14 to 65504.
inline uint32_t no_normal_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t above_least = (bits & 0x7fffffffU) - 0x38800000U;
  return (bits & 0x1fffU) | static_cast<uint32_t>(above_least >= 0x47800000U - 0x38800000U);
}
inline bool no_half(float value) {
  return !std::isfinite(value) || float_of_half(half_of_float(value)) != value;
}

// What packing_refusal() says without a look at codes and grids.
std::string shape_refusal(const QuantView& view) {
  if (view.bits != 2 && view.bits != 3 && view.bits != 4 && view.bits != 8)
    return "bits: expected 2, 3, 4 or 8, got " + std::to_string(view.bits);
  if (view.rows < 1 || view.columns < 1)
    return "codes: expected a row and a column or more, got " + std::to_string(view.rows) + " x " +
           std::to_string(view.columns);
  const bool one = one_group(view);
  if (!one && (view.group_size < 16 || view.group_size % 16 != 0))
    return "group_size: expected a multiple of 16, or -1 for one group a row, got " +
           std::to_string(view.group_size);
  const int64_t expected = one ? 1 : (view.columns - 1) / view.group_size + 1;
  if (view.group_of_input == nullptr && view.groups != expected)
    return "groups: expected " + std::to_string(expected) + " of " + std::to_string(view.columns) +
           " columns, got " + std::to_string(view.groups);
  if (view.groups < 1) return "groups: expected 1 or more, got " + std::to_string(view.groups);
  if (view.group_of_input != nullptr) {
    for (int64_t i = 0; i < view.columns; ++i) {
      const int32_t group = view.group_of_input[i];
      if (group < 0 || group >= view.groups)
        return "group_of_input[column " + std::to_string(i) + "]: expected 0 to " +
               std::to_string(view.groups - 1) + ", got " + std::to_string(group);
    }
  }
  return "";
}

// 16 rows of 16 codes.
using Codes [[gnu::vector_size(16), gnu::may_alias]] = uint8_t;
using Square = Codes[16];

// Interleaving the upper half of the rows with the lower one four times turns rows into columns.
[[gnu::always_inline]] inline void transpose(Square& rows) {
#pragma GCC unroll 4
  for (int turn = 0; turn < 4; ++turn) {
    Square mixed;
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      mixed[2 * i] = __builtin_shuffle(
          rows[i], rows[i + 8], Codes{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
      mixed[2 * i + 1] =
          __builtin_shuffle(rows[i], rows[i + 8],
                            Codes{8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31});
    }
    std::copy(mixed, mixed + 16, rows);
  }
}

// Some columns of 16 rows. Rows of a matrix may lie a multiple of 4096 bytes apart, where a
// first-level cache holds no more than eight of their lines: they are copied in runs to where they
// lie apart, and squares are taken from there.
constexpr int64_t kRun = 128;
struct Run {
  alignas(64) uint8_t rows[16][kRun + 16];

  // Absent rows and columns stay as they are. Whole runs are copied by a few instructions.
  void read(const uint8_t* codes, int64_t stride, int64_t rows_there, int64_t columns) {
    for (int64_t row = 0; row < rows_there; ++row) {
      const uint8_t* const from = codes + row * stride;
      if (columns >= kRun)
        std::memcpy(rows[row], from, kRun);
      else
        std::copy(from, from + columns, rows[row]);
    }
  }
  void write(uint8_t* codes, int64_t stride, int64_t rows_there, int64_t columns) const {
    for (int64_t row = 0; row < rows_there; ++row) {
      uint8_t* const to = codes + row * stride;
      if (columns >= kRun)
        std::memcpy(to, rows[row], kRun);
      else
        std::copy(rows[row], rows[row] + columns, to);
    }
  }
};

// 16 columns of 16 rows `stride` apart, from row by row to column by column and back.
[[gnu::always_inline]] inline void columns_of(const uint8_t* rows, int64_t stride, Square& square) {
  for (int64_t row = 0; row < 16; ++row) std::memcpy(&square[row], rows + row * stride, 16);
  transpose(square);
}
[[gnu::always_inline]] inline void rows_of(Square& square, uint8_t* rows, int64_t stride) {
  transpose(square);
  for (int64_t row = 0; row < 16; ++row) std::memcpy(rows + row * stride, &square[row], 16);
}
constexpr int64_t kRunStride = sizeof(Run::rows[0]);

// Where the first number of a matrix [rows, columns] is that has more bits than codes have; "" if
// none has.
std::string above_bits(const QuantView& view, const char* name, const char* second,
                       const uint8_t* values, int64_t columns) {
  if (view.bits == 8) return "";
  const auto most = static_cast<uint8_t>((1U << view.bits) - 1);
  const auto suspect = [beyond = static_cast<uint8_t>(~most)](uint8_t value) {
    return static_cast<uint8_t>(value & beyond);
  };
  const int64_t at = first_where(values, view.rows, columns, suspect,
                                 [most](uint8_t value) { return value > most; });
  if (at < 0) return "";
  return place(name, at / columns, at % columns, second) + "expected at most " +
         std::to_string(most) + ", got " + std::to_string(values[at]);
}

}  // namespace

std::string packing_refusal(const QuantView& view) {
  const std::string shape = shape_refusal(view);
  if (!shape.empty()) return shape;
  const std::string codes = above_bits(view, "codes", "column", view.codes, view.columns);
  return codes.empty() ? grids_refusal(view) : codes;
}

bool any_code_beyond(const QuantView& view, int64_t row, int64_t rows) {
  if (rows <= 0 || view.bits == 8) return false;
  const uint8_t* const codes = view.codes + row * view.columns;
  uint8_t any = 0;
  for (int64_t i = 0; i < rows * view.columns; ++i) any |= codes[i];
  return any >> view.bits != 0;
}

std::string grids_refusal(const QuantView& view) {
  const std::string shape = shape_refusal(view);
  if (!shape.empty()) return shape;
  const std::string zeros = above_bits(view, "zeros", "group", view.zeros, view.groups);
  if (!zeros.empty()) return zeros;
  const int64_t wrong = first_where(view.scales, view.rows, view.groups, no_normal_half, no_half);
  if (wrong < 0) return "";
  return place("scales", wrong / view.groups, wrong % view.groups, "group") +
         "expected a finite number that float16 holds, got " + number_text(view.scales[wrong]);
}

PackedShape packed_shape(const QuantView& view, int64_t row_multiple, int64_t column_multiple) {
  const std::string reason = shape_refusal(view);
  if (!reason.empty()) throw Error(kPacking, reason);
  PackedShape shape;
  shape.rows = view.rows;
  shape.columns = view.columns;
  shape.bits = view.bits;
  shape.groups = view.groups;
  shape.group_size = view.group_size;
  const int64_t grids = view.rows * view.groups;
  shape.symmetric = std::all_of(view.zeros, view.zeros + grids,
                                [&](uint8_t zero) { return zero == 1U << (view.bits - 1); });
  shape.ordered = !natural(view);
  shape.packed_rows = round_up(view.rows, row_multiple);
  if (!one_group(view))
    shape.scale_span =
        view.group_size % 128 == 0 ? view.group_size : std::gcd(view.group_size, int64_t{128});
  int64_t columns = view.columns;
  if (shape.ordered) {
    if (one_group(view)) shape.scale_span = 128;  // several groups of a size that was not told
    std::vector<int64_t> counts(static_cast<size_t>(view.groups));
    for (int64_t i = 0; i < view.columns; ++i)
      ++counts[static_cast<size_t>(view.group_of_input[i])];
    columns = 0;
    for (const int64_t count : counts)
      columns += round_up(std::max(count, int64_t{1}), shape.scale_span);
  }
  shape.packed_columns = round_up(columns, column_multiple);
  if (!shape.ordered && one_group(view)) shape.scale_span = shape.packed_columns;
  return shape;
}

PackedBytes packed_bytes(const PackedShape& shape) {
  // So that the next part starts at a multiple of 128.
  const auto whole = [](int64_t bytes) { return round_up(bytes, 128); };
  const int64_t grids = shape.packed_rows * shape.scale_spans();
  PackedBytes bytes;
  bytes.codes = whole(shape.packed_rows * shape.packed_columns * shape.bits / 8);
  bytes.scales = whole(2 * grids);
  if (!shape.symmetric) bytes.zeros = whole(grids);
  if (shape.ordered) bytes.input_order = whole(4 * (shape.packed_columns + shape.scale_spans()));
  return bytes;
}

std::vector<int32_t> packed_order(const QuantView& view, const PackedShape& shape) {
  if (!shape.ordered) return {};
  std::vector<std::vector<int32_t>> columns(static_cast<size_t>(view.groups));
  for (int64_t i = 0; i < view.columns; ++i)
    columns[static_cast<size_t>(view.group_of_input[i])].push_back(static_cast<int32_t>(i));
  std::vector<int32_t> order;
  std::vector<int32_t> groups;
  for (int64_t group = 0; group < view.groups; ++group) {
    const auto& members = columns[static_cast<size_t>(group)];
    order.insert(order.end(), members.begin(), members.end());
    const auto count = static_cast<int64_t>(std::max<size_t>(members.size(), 1));
    const int64_t spans = (count + shape.scale_span - 1) / shape.scale_span;
    groups.insert(groups.end(), static_cast<size_t>(spans), static_cast<int32_t>(group));
    order.resize(groups.size() * static_cast<size_t>(shape.scale_span), -1);
  }
  order.resize(static_cast<size_t>(shape.packed_columns), -1);
  groups.resize(static_cast<size_t>(shape.scale_spans()), -1);
  order.insert(order.end(), groups.begin(), groups.end());
  return order;
}

std::vector<int32_t> groups_of_spans(const PackedShape& shape, const int32_t* input_order) {
  std::vector<int32_t> groups(static_cast<size_t>(shape.scale_spans()));
  for (size_t span = 0; span < groups.size(); ++span) {
    if (shape.ordered) {
      groups[span] = input_order[static_cast<size_t>(shape.packed_columns) + span];
      continue;
    }
    const int64_t column = static_cast<int64_t>(span) * shape.scale_span;
    const int64_t group = shape.groups == 1 ? 0 : column / shape.group_size;
    groups[span] = static_cast<int32_t>(group < shape.groups ? group : -1);
  }
  return groups;
}

CodeOrder::CodeOrder(const PackedShape& shape, const int32_t* order)
    : columns_(shape.columns), packed_columns_(shape.packed_columns), order_(order) {
  if (order != nullptr) by_column_.resize(static_cast<size_t>((columns_ + kRun) * kRows));
}

void CodeOrder::gather(const uint8_t* codes, int64_t rows, uint8_t* packed) {
  const int64_t present = std::max<int64_t>(rows, 0);
  if (order_ == nullptr) {
    for (int64_t row = 0; row < kRows; ++row) {
      uint8_t* const to = packed + row * stride();
      const int64_t there = row < present ? columns_ : 0;
      std::copy(codes + row * columns_, codes + row * columns_ + there, to);
      std::fill(to + there, to + packed_columns_, 0);
    }
    return;
  }
  Run run = {};
  for (int64_t first = 0; first < columns_; first += kRun) {
    run.read(codes + first, columns_, present, columns_ - first);
    for (int64_t at = 0; at < kRun; at += 16) {
      Square square;
      columns_of(run.rows[0] + at, kRunStride, square);
      std::memcpy(by_column_.data() + (first + at) * kRows, square, sizeof(square));
    }
  }
  // What the last run wrote there is a padded column: 0 in all rows.
  std::fill_n(by_column_.begin() + columns_ * kRows, kRows, 0);
  for (int64_t first = 0; first < packed_columns_; first += 16) {
    Square square;
    for (int64_t i = 0; i < 16; ++i) {
      const int64_t from = order_[first + i] < 0 ? columns_ : order_[first + i];
      std::memcpy(&square[i], by_column_.data() + from * kRows, kRows);
    }
    rows_of(square, packed + first, stride());
  }
}

void CodeOrder::scatter(const uint8_t* packed, int64_t rows, uint8_t* codes) {
  if (order_ == nullptr) {
    for (int64_t row = 0; row < rows; ++row)
      std::copy(packed + row * stride(), packed + row * stride() + columns_,
                codes + row * columns_);
    return;
  }
  for (int64_t first = 0; first < packed_columns_; first += 16) {
    Square square;
    columns_of(packed + first, stride(), square);
    for (int64_t i = 0; i < 16; ++i) {
      const int64_t to = order_[first + i] < 0 ? columns_ : order_[first + i];
      std::memcpy(by_column_.data() + to * kRows, &square[i], kRows);
    }
  }
  Run run;
  for (int64_t first = 0; first < columns_; first += kRun) {
    for (int64_t at = 0; at < kRun; at += 16) {
      Square square;
      std::memcpy(square, by_column_.data() + (first + at) * kRows, sizeof(square));
      rows_of(square, run.rows[0] + at, kRunStride);
    }
    run.write(codes + first, columns_, rows, columns_ - first);
  }
}

void pack_grids(const QuantView& view, const PackedShape& shape, const std::vector<int32_t>& groups,
                int64_t rows, int64_t block, RowPlace place, const PackedParts& out) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = block * rows + r;
    const int64_t from = row * shape.groups;
    int64_t to = block * shape.scale_spans() * rows + place(r);
    for (const int32_t group : groups) {
      const bool padding = group < 0 || row >= shape.rows;
      out.scales[to] = padding ? uint16_t{0} : half_of_float(view.scales[from + group]);
      if (!shape.symmetric) out.zeros[to] = padding ? uint8_t{0} : view.zeros[from + group];
      to += rows;
    }
  }
}

void unpack_grids(const PackedView& view, const std::vector<int32_t>& groups, int64_t rows,
                  int64_t block, RowPlace place, const CanonicalParts& out) {
  const PackedShape& shape = view.shape;
  const auto middle = static_cast<uint8_t>(1U << (shape.bits - 1));
  for (int64_t r = 0; r < rows && block * rows + r < shape.rows; ++r) {
    const int64_t to = (block * rows + r) * shape.groups;
    int64_t from = block * shape.scale_spans() * rows + place(r);
    for (const int32_t group : groups) {
      if (group >= 0) {
        out.scales[to + group] = float_of_half(view.scales[from]);
        out.zeros[to + group] = shape.symmetric ? middle : view.zeros[from];
      }
      from += rows;
    }
  }
}

void unpack_order(const PackedView& view, const std::vector<int32_t>& groups,
                  int32_t* group_of_input) {
  const PackedShape& shape = view.shape;
  for (int64_t i = 0; i < shape.packed_columns; ++i) {
    const int64_t column = shape.ordered ? view.input_order[i] : i;
    if (column >= 0 && column < shape.columns)
      group_of_input[column] = groups[static_cast<size_t>(i / shape.scale_span)];
  }
}

}  // namespace gptqb::kernels
