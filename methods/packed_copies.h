// A packed weight on a device, as often as a measurement needs it; once for a model.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/packed_weight.h"
#include "kernels/quant_view.h"

namespace gptqb {

class PackedCopies {
 public:
  // Packs `view` in `layout` (kernels/packed_layout.h), one copy on the host. Throws Error if it
  // cannot be packed so.
  PackedCopies(std::string_view layout, const kernels::QuantView& view);
  // The same, then put().
  template <class Copies>
  PackedCopies(std::string_view layout, const kernels::QuantView& view, at::Device device,
               const Copies& copies)
      : PackedCopies(layout, view) {
    put(device, copies(bytes()));
  }

  // One below the other, `parts` of one copy each on one device: a linear of all their rows. Null
  // if they are laid out in different ways, or rows of one would not follow those before it.
  static std::optional<PackedCopies> stacked(std::string_view layout,
                                             const std::vector<const PackedCopies*>& parts);

  // Moves it to `device`, `copies` times there.
  void put(at::Device device, int64_t copies);

  at::Device device() const { return memory_.device(); }
  int64_t bytes() const { return parts_.total(); }  // of one copy
  int64_t copies() const { return memory_.size(0); }
  const kernels::PackedShape& shape() const { return shape_; }
  // Of the memory of this object.
  kernels::PackedView view(int64_t copy) const;

 private:
  PackedCopies() = default;

  kernels::PackedShape shape_;
  kernels::PackedBytes parts_;
  at::Tensor memory_;  // [copies, bytes], uint8
};

}  // namespace gptqb
