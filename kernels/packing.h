// What all packed layouts do alike: what they refuse, in which order columns lie, where scales go.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/packed_weight.h"
#include "kernels/quant_view.h"

namespace gptqb::kernels {

// Where the parts of a packed weight are written.
struct PackedParts {
  uint32_t* codes = nullptr;
  uint16_t* scales = nullptr;
  uint8_t* zeros = nullptr;
  int32_t* input_order = nullptr;
};

// Where a canonical form is written: codes [rows, columns], scales and zeros [rows, groups],
// group_of_input [columns] (may be null).
struct CanonicalParts {
  uint8_t* codes = nullptr;
  float* scales = nullptr;
  uint8_t* zeros = nullptr;
  int32_t* group_of_input = nullptr;
};

// Empty, or why `view` cannot be packed: bits other than 2, 3, 4, 8, a group size that is no
// multiple of 16, a scale that float16 does not hold, a code or a group out of range. Names the
// place.
std::string packing_refusal(const QuantView& view);

// The same but for codes: a layout looks at those row by row while it packs them, since a second
// pass over all of them takes as long as a third of packing.
std::string grids_refusal(const QuantView& view);
// Whether one of the codes of `rows` rows from `row` on is out of range; false for none or fewer.
bool any_code_beyond(const QuantView& view, int64_t row, int64_t rows);

// The place that errors of packing name.
constexpr const char* kPacking = "packed weight";

// `view` with rows and columns padded to multiples of these. Natural order if group_of_input is
// null or i / group_size; else columns are sorted by group, stably, and each group is padded to a
// multiple of its scale span, an empty one to a whole span. Throws Error with packing_refusal(),
// but for what it says of codes, scales and zeros.
PackedShape packed_shape(const QuantView& view, int64_t row_multiple, int64_t column_multiple);

PackedBytes packed_bytes(const PackedShape& shape);

// The parts of PackedView::input_order: the canonical column of each packed one, then the group of
// each scale span (-1 for padding).
std::vector<int32_t> packed_order(const QuantView& view, const PackedShape& shape);

// The group of each scale span, -1 for padding.
std::vector<int32_t> groups_of_spans(const PackedShape& shape, const int32_t* input_order);

// Codes of 16 rows at a time, to packed order and back; `order` null for natural order.
class CodeOrder {
 public:
  static constexpr int64_t kRows = 16;

  CodeOrder(const PackedShape& shape, const int32_t* order);

  // Bytes from a row in packed order to the next: never a multiple of 4096, where lines of 16 rows
  // would not fit in a first-level cache together.
  int64_t stride() const { return packed_columns_ + kApart; }

  // `codes`: the first of `rows` canonical rows, at most 16 and none if negative; `packed` 16 rows
  // of packed_columns, stride() apart, 0 in padding and absent rows.
  void gather(const uint8_t* codes, int64_t rows, uint8_t* packed);
  // The inverse: padding and absent rows are left out.
  void scatter(const uint8_t* packed, int64_t rows, uint8_t* codes);

 private:
  static constexpr int64_t kApart = 64;

  int64_t columns_;
  int64_t packed_columns_;
  const int32_t* order_;
  // The 16 codes of a column beside each other, [columns and one that is padding][16]: a column is
  // moved at once.
  std::vector<uint8_t> by_column_;
};

// Where a row of a row block lies among its `rows`.
using RowPlace = int64_t (*)(int64_t row);

// Scales and zeros of `rows` rows beside each other for each scale span: [row blocks][spans][rows],
// in the order of `place`. Padding is 0. One row block at a time.
void pack_grids(const QuantView& view, const PackedShape& shape, const std::vector<int32_t>& groups,
                int64_t rows, int64_t block, RowPlace place, const PackedParts& out);
void unpack_grids(const PackedView& view, const std::vector<int32_t>& groups, int64_t rows,
                  int64_t block, RowPlace place, const CanonicalParts& out);

// group_of_input of the canonical form.
void unpack_order(const PackedView& view, const std::vector<int32_t>& groups,
                  int32_t* group_of_input);

}  // namespace gptqb::kernels
