// Quantized weights in the order that a kernel reads them.
#pragma once

#include <cstdint>
#include <string_view>

namespace gptqb::kernels {

// What a packed weight holds; the same on the host and on a device.
struct PackedShape {
  int64_t rows = 0;     // out features
  int64_t columns = 0;  // in features
  int64_t bits = 4;
  int64_t groups = 0;       // of the canonical form
  int64_t group_size = -1;  // of the canonical form
  // Every zero point is 2^(bits - 1): none is stored.
  bool symmetric = false;
  // Columns are not in natural order, or padded inside: input_order says where each came from.
  bool ordered = false;

  int64_t packed_rows = 0;     // with padding
  int64_t packed_columns = 0;  // with padding
  // Consecutive packed columns that share a scale: a power of two from 16 to 128, or a multiple of
  // 128. A group is one or more of them.
  int64_t scale_span = 128;

  constexpr int64_t scale_spans() const { return (packed_columns + scale_span - 1) / scale_span; }
};

// Bytes of each part, as a layout lays them out; every part starts at a multiple of 128 bytes.
struct PackedBytes {
  int64_t codes = 0;
  int64_t scales = 0;
  int64_t zeros = 0;        // 0 if symmetric
  int64_t input_order = 0;  // 0 unless ordered
  int64_t total() const { return codes + scales + zeros + input_order; }
};

// The parts of one packed weight, all on the host or all on one device. A view: owns nothing.
struct PackedView {
  PackedShape shape;
  const uint32_t* codes = nullptr;
  const uint16_t* scales = nullptr;  // float16 bits
  const uint8_t* zeros = nullptr;    // null if symmetric
  // [packed_columns]: the canonical column of each packed one, -1 for padding; null unless ordered.
  // Then [scale spans]: the group of each, -1 for padding, which only unpacking reads.
  const int32_t* input_order = nullptr;
};

}  // namespace gptqb::kernels
