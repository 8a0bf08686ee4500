#include "kernels/packing.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>

#include "common/error.h"
#include "common/text.h"
#include "kernels/half_bits.h"
#include "kernels/impl/parallel.h"

namespace gptqb::kernels {
namespace {

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

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

// The first value above `most` in a matrix, or -1. In parallel: this reads every code.
int64_t first_above(const uint8_t* values, int64_t rows, int64_t columns, int most) {
  constexpr int64_t kRows = 16;
  std::atomic<int64_t> first = rows * columns;
  parallel_parts(rows, kRows, [&](int64_t begin, int64_t end) {
    const uint8_t* const part = values + begin * columns;
    const int64_t count = (end - begin) * columns;
    uint8_t largest = 0;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, part[i]);
    if (largest <= most) return;
    const int64_t at =
        begin * columns +
        (std::find_if(part, part + count, [&](uint8_t value) { return value > most; }) - part);
    int64_t known = first.load();
    while (at < known && !first.compare_exchange_weak(known, at)) {
    }
  });
  return first == rows * columns ? -1 : first.load();
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

}  // namespace

std::string packing_refusal(const QuantView& view) {
  const std::string shape = shape_refusal(view);
  if (!shape.empty()) return shape;
  const int most = (1 << view.bits) - 1;
  const auto above = [&](const char* name, const char* second, const uint8_t* values,
                         int64_t columns) -> std::string {
    const int64_t at = first_above(values, view.rows, columns, most);
    if (at < 0) return "";
    return place(name, at / columns, at % columns, second) + "expected at most " +
           std::to_string(most) + ", got " + std::to_string(values[at]);
  };
  if (view.bits < 8) {
    std::string reason = above("codes", "column", view.codes, view.columns);
    if (reason.empty()) reason = above("zeros", "group", view.zeros, view.groups);
    if (!reason.empty()) return reason;
  }
  for (int64_t i = 0; i < view.rows * view.groups; ++i) {
    const float scale = view.scales[i];
    if (!std::isfinite(scale) || float_of_half(half_of_float(scale)) != scale)
      return place("scales", i / view.groups, i % view.groups, "group") +
             "expected a finite number that float16 holds, got " + number_text(scale);
  }
  return "";
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

void gather_row(const uint8_t* codes, const PackedShape& shape, const int32_t* order,
                uint8_t* packed) {
  if (order == nullptr) {
    std::copy(codes, codes + shape.columns, packed);
    std::fill(packed + shape.columns, packed + shape.packed_columns, 0);
    return;
  }
  for (int64_t i = 0; i < shape.packed_columns; ++i) {
    const int64_t from = order[i];
    const uint8_t code = codes[from < 0 ? 0 : from];
    packed[i] = from < 0 ? 0 : code;
  }
}

void scatter_row(const uint8_t* packed, const PackedShape& shape, const int32_t* order,
                 uint8_t* codes) {
  if (order == nullptr) {
    std::copy(packed, packed + shape.columns, codes);
    return;
  }
  for (int64_t i = 0; i < shape.packed_columns; ++i)
    if (order[i] >= 0) codes[order[i]] = packed[i];
}

void pack_grids(const QuantView& view, const PackedShape& shape, const std::vector<int32_t>& groups,
                int64_t rows, int64_t block, const PackedParts& out) {
  const int64_t first = block * rows;
  const int64_t at = block * shape.scale_spans() * rows;
  for (size_t span = 0; span < groups.size(); ++span) {
    for (int64_t r = 0; r < rows; ++r) {
      const bool padding = groups[span] < 0 || first + r >= shape.rows;
      const int64_t from = padding ? 0 : (first + r) * shape.groups + groups[span];
      const int64_t to = at + static_cast<int64_t>(span) * rows + r;
      out.scales[to] = padding ? uint16_t{0} : half_of_float(view.scales[from]);
      if (!shape.symmetric) out.zeros[to] = padding ? uint8_t{0} : view.zeros[from];
    }
  }
}

void unpack_grids(const PackedView& view, const std::vector<int32_t>& groups, int64_t rows,
                  int64_t block, const CanonicalParts& out) {
  const PackedShape& shape = view.shape;
  const int64_t first = block * rows;
  const int64_t at = block * shape.scale_spans() * rows;
  for (size_t span = 0; span < groups.size(); ++span) {
    if (groups[span] < 0) continue;
    for (int64_t r = 0; r < rows && first + r < shape.rows; ++r) {
      const int64_t from = at + static_cast<int64_t>(span) * rows + r;
      const int64_t to = (first + r) * shape.groups + groups[span];
      out.scales[to] = float_of_half(view.scales[from]);
      out.zeros[to] =
          shape.symmetric ? static_cast<uint8_t>(1U << (shape.bits - 1)) : view.zeros[from];
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
