// The products that carry the errors of solved columns to later ones: most of a solver's
// arithmetic, and on a GPU a choice between exactness and speed.
#pragma once

#include <ATen/ATen.h>

#include "methods/method_config.h"
#include "methods/tf32.h"

namespace gptqb {

// carried [columns, rows] += N^T E by spans of columns. On the CPU and in f64 every precision is
// the plain product.
class CarryProducts {
 public:
  // `factor` N [columns, columns], `errors` E and `carried` [columns, rows], contiguous; `errors`
  // and `carried` change while this lives.
  CarryProducts(const at::Tensor& factor, const at::Tensor& errors, const at::Tensor& carried,
                ProductPrecision precision);

  // Adds what the errors of columns [begin, middle) send to columns [middle, end).
  void carry(int64_t begin, int64_t middle, int64_t end);

 private:
  at::Tensor factor_;
  at::Tensor errors_;
  at::Tensor carried_;
  ProductPrecision precision_;
  Tf32Halves split_factor_;  // kTf32x3 only
  Tf32Halves split_errors_;  // of columns [0, split_until_)
  int64_t split_until_ = 0;
};

}  // namespace gptqb
