// The products that carry the errors of solved columns to later ones: most of a solver's
// arithmetic, and on a GPU a choice between exactness and speed.
#pragma once

#include <ATen/ATen.h>

#include "methods/method_config.h"
#include "methods/packed_factor.h"
#include "methods/tf32.h"

namespace gptqb {

// carried [columns, rows] += N^T E by spans of columns. On the CPU and in f64 every precision is
// the plain product.
//
// On the CPU in f32 the products run on the calling thread and from panels: of N, packed for all
// strips of rows, and of E, packed when columns are first carried, since they then change no more.
class CarryProducts {
 public:
  // `factor` N [columns, columns], `errors` E and `carried` [columns, rows], contiguous; `errors`
  // and `carried` change while this lives. `packed`: pack_factor(factor), or none to leave all
  // products to ATen.
  CarryProducts(const at::Tensor& factor, const at::Tensor& errors, const at::Tensor& carried,
                ProductPrecision precision, PackedFactor packed = {});

  // Begins again with the errors of other rows; memory of panels is kept.
  void restart(const at::Tensor& errors, const at::Tensor& carried);

  // Adds what the errors of columns [begin, middle) send to columns [middle, end).
  void carry(int64_t begin, int64_t middle, int64_t end);

 private:
  void carry_panels(int64_t begin, int64_t middle, int64_t end);

  at::Tensor factor_;
  at::Tensor errors_;
  at::Tensor carried_;
  ProductPrecision precision_;
  PackedFactor packed_factor_;
  PackedRows packed_errors_;
  Tf32Halves split_factor_;  // kTf32x3 only
  Tf32Halves split_errors_;  // of columns [0, split_until_)
  int64_t split_until_ = 0;
};

}  // namespace gptqb
