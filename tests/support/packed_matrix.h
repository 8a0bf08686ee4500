// A quantized matrix packed in host memory. Every byte is set before, so that what packing leaves
// out shows: unwritten scales are NaN.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

#include "kernels/packed_layout.h"

namespace gptqb::test {

// Bytes at a multiple of 128, each one 0xff at first.
class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t count)
      : data_(static_cast<uint8_t*>(
            ::operator new (static_cast<size_t>(count), std::align_val_t{128}))) {
    std::memset(data_, 0xff, static_cast<size_t>(count));
  }
  ~AlignedBytes() { ::operator delete (data_, std::align_val_t{128}); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;

  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_;
};

class PackedMatrix {
 public:
  explicit PackedMatrix(const kernels::QuantView& view, std::string_view layout = "tiles")
      : layout_(kernels::packed_layout(layout)),
        shape_(layout_.shape(view)),
        bytes_(layout_.bytes(shape_)),
        memory_(bytes_.total()) {
    layout_.pack(view, shape_, parts());
  }

  const kernels::PackedLayout& layout() const { return layout_; }
  const kernels::PackedShape& shape() const { return shape_; }
  const kernels::PackedBytes& bytes() const { return bytes_; }
  // All parts, one after the other.
  const uint8_t* data() const { return memory_.data(); }

  kernels::PackedParts parts() const {
    uint8_t* const scales = memory_.data() + bytes_.codes;
    uint8_t* const zeros = scales + bytes_.scales;
    return {
        .codes = reinterpret_cast<uint32_t*>(memory_.data()),
        .scales = reinterpret_cast<uint16_t*>(scales),
        .zeros = shape_.symmetric ? nullptr : zeros,
        .input_order = shape_.ordered ? reinterpret_cast<int32_t*>(zeros + bytes_.zeros) : nullptr};
  }
  kernels::PackedView view() const {
    const auto all = parts();
    return {.shape = shape_,
            .codes = all.codes,
            .scales = all.scales,
            .zeros = all.zeros,
            .input_order = all.input_order};
  }

 private:
  const kernels::PackedLayout& layout_;
  kernels::PackedShape shape_;
  kernels::PackedBytes bytes_;
  AlignedBytes memory_;
};

}  // namespace gptqb::test
