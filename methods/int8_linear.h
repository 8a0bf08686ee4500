// LLM.int8() (Dettmers et al. 2022): 8-bit weights and activations, with the few input columns that
// hold outliers computed in the model's dtype.
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// W8A8 with outlier columns. Stored: codes and a scale a row; a column that turns out to hold
// outliers is computed with its dequantized weights.
struct Int8Linear {
  at::Tensor codes;       // i8 [out, in], -127 .. 127
  at::Tensor row_scales;  // f32 [out], > 0: weight = code * scale
  double threshold = 6;   // an input column with any |x| of at least this in a window is an outlier

  at::Tensor dequantize(at::ScalarType dtype) const;
  Int8Linear to(at::Device device) const;
};

// Row absmax / 127 as scale, codes rounded half to even; an all-zero row gets scale 1. `weights`
// [out, in] f32.
Int8Linear quantize_int8(const at::Tensor& weights, double threshold);

// Input columns of `x` [.., seqlen, in] with any |value| >= threshold: bool [.., in].
at::Tensor outlier_columns(const at::Tensor& x, double threshold);

// x W^T + bias for `x` [sequences, seqlen, in], in x's dtype. The outliers of a sequence are
// its own, so that its result does not depend on what else is computed beside it.
// Inlier columns: x rounded to int8 by token absmax / 127, exact int32 sums. `bias` may be
// undefined.
at::Tensor int8_product(const at::Tensor& x, const Int8Linear& linear, const at::Tensor& bias);

}  // namespace gptqb
