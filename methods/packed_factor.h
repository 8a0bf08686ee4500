// Matrices of the sweep packed in panels, and their products on the CPU (kernels/panel_product.h).
#pragma once

#include <ATen/ATen.h>

#include "kernels/panel_product.h"

namespace gptqb {

// An upper triangle, packed once for all strips of rows.
struct PackedFactor {
  at::Tensor panels;  // f32 [panels, stride]; undefined: ATen does the products
  kernels::PanelKernel kernel;
};

// `triangle` [columns, columns], row-major; of what is below its diagonal a little is packed too
// and nothing asked for. Undefined panels on a GPU and in f64.
PackedFactor pack_factor(const at::Tensor& triangle);

// What a factor is multiplied with: [columns, rows], packed by and by.
class PackedRows {
 public:
  // Room for a matrix of this shape, in the memory that is already there if it is enough.
  void restart(const PackedFactor& factor, int64_t columns, int64_t rows);
  // Takes columns [packed(), packed() + width) from `values` f32 [width, rows], contiguous.
  void pack(const at::Tensor& values);
  int64_t packed() const { return packed_; }

  // out [last - first, rows] += factor[begin:end, first:last]^T values[begin:end], on the calling
  // thread. `out` f32, contiguous.
  void add_product(const PackedFactor& factor, int64_t begin, int64_t end, int64_t first,
                   int64_t last, float* out) const;

 private:
  at::Tensor panels_;  // f32 [panels, columns, width of a panel]
  int64_t rows_ = 0;
  int64_t packed_ = 0;
};

}  // namespace gptqb
