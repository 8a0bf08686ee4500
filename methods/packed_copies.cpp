#include "methods/packed_copies.h"

#include "kernels/packed_layout.h"
#include "methods/huge_pages.h"

namespace gptqb {
PackedCopies::PackedCopies(std::string_view layout, const kernels::QuantView& view) {
  const kernels::PackedLayout& packed = kernels::packed_layout(layout);
  shape_ = packed.shape(view);
  parts_ = packed.bytes(shape_);
  memory_ = zeros_in_huge_pages({1, parts_.total()}, at::kByte);
  auto* const memory = memory_.data_ptr<uint8_t>();
  kernels::PackedParts out;
  out.codes = reinterpret_cast<uint32_t*>(memory);
  out.scales = reinterpret_cast<uint16_t*>(memory + parts_.codes);
  if (parts_.zeros > 0) out.zeros = memory + parts_.codes + parts_.scales;
  if (parts_.input_order > 0)
    out.input_order =
        reinterpret_cast<int32_t*>(memory + parts_.codes + parts_.scales + parts_.zeros);
  packed.pack(view, shape_, out);
}

void PackedCopies::put(at::Device device, int64_t copies) {
  const auto one = memory_.to(device);
  if (copies == 1) {
    memory_ = one;
    return;
  }
  memory_ = at::empty({copies, parts_.total()}, one.options());
  memory_.copy_(one.expand_as(memory_));
}

kernels::PackedView PackedCopies::view(int64_t copy) const {
  const auto* const memory = memory_.const_data_ptr<uint8_t>() + copy * parts_.total();
  kernels::PackedView view;
  view.shape = shape_;
  view.codes = reinterpret_cast<const uint32_t*>(memory);
  view.scales = reinterpret_cast<const uint16_t*>(memory + parts_.codes);
  if (parts_.zeros > 0) view.zeros = memory + parts_.codes + parts_.scales;
  if (parts_.input_order > 0)
    view.input_order =
        reinterpret_cast<const int32_t*>(memory + parts_.codes + parts_.scales + parts_.zeros);
  return view;
}

}  // namespace gptqb
