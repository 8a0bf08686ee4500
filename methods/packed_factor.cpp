#include "methods/packed_factor.h"

#include <algorithm>

#include "methods/huge_pages.h"
#include "methods/parallel_parts.h"

namespace gptqb {

PackedFactor pack_factor(const at::Tensor& triangle) {
  PackedFactor packed;
  if (!triangle.is_cpu() || triangle.scalar_type() != at::kFloat) return packed;
  packed.kernel = kernels::panel_kernels().front();
  const int64_t columns = triangle.size(0);
  const int64_t width = packed.kernel.left_width;
  const int64_t stride = kernels::left_panel_stride(columns, width);
  packed.panels = empty_in_huge_pages({(columns + width - 1) / width, stride}, triangle.options());
  const auto* from = triangle.const_data_ptr<float>();
  auto* to = packed.panels.mutable_data_ptr<float>();
  // Columns that are packed together: the later the column, the more is above its diagonal.
  constexpr int64_t kTogether = 64;
  parallel_parts(columns, kTogether, kTogether, [&](int64_t begin, int64_t end) {
    kernels::pack_panels(from + begin, triangle.stride(0), end, end - begin, width,
                         to + begin / width * stride, stride);
  });
  return packed;
}

void PackedRows::restart(const PackedFactor& factor, int64_t columns, int64_t rows) {
  const int64_t width = factor.kernel.right_width;
  if (!panels_.defined()) panels_ = at::empty({0}, factor.panels.options());
  panels_.resize_({(rows + width - 1) / width, columns, width});
  rows_ = rows;
  packed_ = 0;
}

void PackedRows::pack(const at::Tensor& values) {
  const int64_t width = panels_.size(2);
  kernels::pack_panels(values.const_data_ptr<float>(), rows_, values.size(0), rows_, width,
                       panels_.mutable_data_ptr<float>() + packed_ * width, panels_.stride(0));
  packed_ += values.size(0);
}

void PackedRows::add_product(const PackedFactor& factor, int64_t begin, int64_t end, int64_t first,
                             int64_t last, float* out) const {
  const auto& kernel = factor.kernel;
  const int64_t left_stride = factor.panels.stride(0);
  kernel.add({.depth = end - begin,
              .left_columns = last - first,
              .right_columns = rows_,
              .left_skipped = first % kernel.left_width,
              .left = factor.panels.const_data_ptr<float>() +
                      first / kernel.left_width * left_stride + begin * kernel.left_width,
              .left_stride = left_stride,
              .right = panels_.const_data_ptr<float>() + begin * kernel.right_width,
              .right_stride = panels_.stride(0),
              .out = out,
              .out_stride = rows_});
}

}  // namespace gptqb
