#include "methods/packed_copies.h"

#include "kernels/packed_layout.h"
#include "methods/huge_pages.h"

namespace gptqb {
namespace {

// But for the number of rows.
bool laid_out_alike(const kernels::PackedShape& a, const kernels::PackedShape& b) {
  return a.columns == b.columns && a.bits == b.bits && a.groups == b.groups &&
         a.group_size == b.group_size && a.symmetric == b.symmetric && a.ordered == b.ordered &&
         a.packed_columns == b.packed_columns && a.scale_span == b.scale_span;
}

}  // namespace

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

std::optional<PackedCopies> PackedCopies::stacked(std::string_view layout,
                                                  const std::vector<const PackedCopies*>& parts) {
  const PackedCopies& first = *parts.at(0);
  const auto order_of = [](const PackedCopies& part) {
    const int64_t bytes = part.parts_.input_order;
    return part.memory_.narrow(1, part.parts_.total() - bytes, bytes);
  };
  PackedCopies all;
  all.shape_ = first.shape_;
  all.shape_.rows = 0;
  kernels::PackedBytes sums;
  for (const PackedCopies* part : parts) {
    if (!laid_out_alike(part->shape_, first.shape_) || part->copies() != 1 ||
        part->device() != first.device() || part->shape_.rows != part->shape_.packed_rows)
      return std::nullopt;
    if (first.shape_.ordered && !at::equal(order_of(*part), order_of(first))) return std::nullopt;
    all.shape_.rows += part->shape_.rows;
    sums.codes += part->parts_.codes;
    sums.scales += part->parts_.scales;
    sums.zeros += part->parts_.zeros;
  }
  all.shape_.packed_rows = all.shape_.rows;
  all.parts_ = kernels::packed_layout(layout).bytes(all.shape_);
  // Padding behind one's part would come to lie inside.
  if (all.parts_.codes != sums.codes || all.parts_.scales != sums.scales ||
      all.parts_.zeros != sums.zeros)
    return std::nullopt;
  std::vector<at::Tensor> pieces;
  for (const PackedCopies* part : parts)
    pieces.push_back(part->memory_.narrow(1, 0, part->parts_.codes));
  for (const PackedCopies* part : parts)
    pieces.push_back(part->memory_.narrow(1, part->parts_.codes, part->parts_.scales));
  for (const PackedCopies* part : parts)
    pieces.push_back(
        part->memory_.narrow(1, part->parts_.codes + part->parts_.scales, part->parts_.zeros));
  pieces.push_back(order_of(first));
  all.memory_ = at::cat(pieces, 1);
  return all;
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
