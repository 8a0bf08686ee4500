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

// 16 rows of a cache line's codes, in squares: rows may lie a multiple of 4096 bytes apart, where a
// first-level cache holds no more than eight of their lines, so each is read and written once.
constexpr int64_t kLine = 64;
struct Line {
  Square squares[4];

  void set_row(int64_t row, const uint8_t* codes, int64_t count) {
    uint8_t all[kLine] = {};
    if (count < kLine) {
      std::copy(codes, codes + count, all);
      codes = all;
    }
    for (int64_t i = 0; i < 4; ++i) std::memcpy(&squares[i][row], codes + 16 * i, 16);
  }
  void get_row(int64_t row, uint8_t* codes, int64_t count) const {
    uint8_t all[kLine];
    for (int64_t i = 0; i < 4; ++i)
      std::memcpy((count < kLine ? all : codes) + 16 * i, &squares[i][row], 16);
    if (count < kLine) std::copy(all, all + count, codes);
  }
  // Afterwards the 16 codes of a column lie beside each other.
  void transpose() {
    for (Square& square : squares) gptqb::kernels::transpose(square);
  }
  Codes* column(int64_t index) { return &squares[index / 16][index % 16]; }
};

}  // namespace

std::string packing_refusal(const QuantView& view) {
  const std::string shape = shape_refusal(view);
  if (!shape.empty()) return shape;
  const auto most = static_cast<uint8_t>((1U << view.bits) - 1);
  const auto suspect = [beyond = static_cast<uint8_t>(~most)](uint8_t value) {
    return static_cast<uint8_t>(value & beyond);
  };
  const auto above = [&](const char* name, const char* second, const uint8_t* values,
                         int64_t columns) -> std::string {
    const int64_t at = first_where(values, view.rows, columns, suspect,
                                   [most](uint8_t value) { return value > most; });
    if (at < 0) return "";
    return place(name, at / columns, at % columns, second) + "expected at most " +
           std::to_string(most) + ", got " + std::to_string(values[at]);
  };
  if (view.bits < 8) {
    std::string reason = above("codes", "column", view.codes, view.columns);
    if (reason.empty()) reason = above("zeros", "group", view.zeros, view.groups);
    if (!reason.empty()) return reason;
  }
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
  if (order != nullptr) by_column_.resize(static_cast<size_t>((columns_ + kLine) * kRows));
}

void CodeOrder::gather(const uint8_t* codes, int64_t rows, uint8_t* packed) {
  const int64_t present = std::max<int64_t>(rows, 0);
  std::fill(packed + present * packed_columns_, packed + kRows * packed_columns_, 0);
  if (order_ == nullptr) {
    for (int64_t row = 0; row < present; ++row) {
      uint8_t* const to = packed + row * packed_columns_;
      std::copy(codes + row * columns_, codes + (row + 1) * columns_, to);
      std::fill(to + columns_, to + packed_columns_, 0);
    }
    return;
  }
  if (present == 0) return;
  for (int64_t first = 0; first < columns_; first += kLine) {
    Line line = {};
    for (int64_t row = 0; row < present; ++row)
      line.set_row(row, codes + row * columns_ + first, columns_ - first);
    line.transpose();
    std::memcpy(by_column_.data() + first * kRows, &line, sizeof(line));
  }
  // What the last line wrote there is a padded column: 0 in all rows.
  std::fill_n(by_column_.begin() + columns_ * kRows, kRows, 0);
  for (int64_t first = 0; first < packed_columns_; first += kLine) {
    Line line;
    for (int64_t i = 0; i < kLine; ++i) {
      const int64_t from = order_[first + i] < 0 ? columns_ : order_[first + i];
      std::memcpy(line.column(i), by_column_.data() + from * kRows, kRows);
    }
    line.transpose();
    for (int64_t row = 0; row < present; ++row)
      line.get_row(row, packed + row * packed_columns_ + first, kLine);
  }
}

void CodeOrder::scatter(const uint8_t* packed, int64_t rows, uint8_t* codes) {
  if (order_ == nullptr) {
    for (int64_t row = 0; row < rows; ++row)
      std::copy(packed + row * packed_columns_, packed + row * packed_columns_ + columns_,
                codes + row * columns_);
    return;
  }
  for (int64_t first = 0; first < packed_columns_; first += kLine) {
    Line line;
    for (int64_t row = 0; row < kRows; ++row)
      line.set_row(row, packed + row * packed_columns_ + first, kLine);
    line.transpose();
    for (int64_t i = 0; i < kLine; ++i) {
      const int64_t to = order_[first + i] < 0 ? columns_ : order_[first + i];
      std::memcpy(by_column_.data() + to * kRows, line.column(i), kRows);
    }
  }
  for (int64_t first = 0; first < columns_; first += kLine) {
    Line line;
    std::memcpy(&line, by_column_.data() + first * kRows, sizeof(line));
    line.transpose();
    for (int64_t row = 0; row < rows; ++row)
      line.get_row(row, codes + row * columns_ + first, columns_ - first);
  }
}

void pack_grids(const QuantView& view, const PackedShape& shape, const std::vector<int32_t>& groups,
                int64_t rows, int64_t block, const PackedParts& out) {
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = block * rows + r;
    const int64_t from = row * shape.groups;
    int64_t to = block * shape.scale_spans() * rows + r;
    for (const int32_t group : groups) {
      const bool padding = group < 0 || row >= shape.rows;
      out.scales[to] = padding ? uint16_t{0} : half_of_float(view.scales[from + group]);
      if (!shape.symmetric) out.zeros[to] = padding ? uint8_t{0} : view.zeros[from + group];
      to += rows;
    }
  }
}

void unpack_grids(const PackedView& view, const std::vector<int32_t>& groups, int64_t rows,
                  int64_t block, const CanonicalParts& out) {
  const PackedShape& shape = view.shape;
  const auto middle = static_cast<uint8_t>(1U << (shape.bits - 1));
  for (int64_t r = 0; r < rows && block * rows + r < shape.rows; ++r) {
    const int64_t to = (block * rows + r) * shape.groups;
    int64_t from = block * shape.scale_spans() * rows + r;
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
