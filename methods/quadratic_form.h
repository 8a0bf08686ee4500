// tr(E H E^T): what an error E of a layer's weights does to its outputs, H being the Hessian of its
// inputs (Frantar et al. 2023, section 3.1, where it is the objective).
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// tr(e H e^T). `e` [rows, in] in H's dtype; `h` [in, in] symmetric, f32 or f64, on one device.
//
// Products are in H's dtype and sums in f64, but for f32 on a GPU: there `e`, scaled by a power of
// two, is rounded to float16, multiplied on tensor cores and summed in float32. A record's error
// columns then carry about four digits, at a tenth of the time: roundings of single weights average
// out over rows and columns. (Measured on an H200 against f64: see tests/gpu.)
double quadratic_form(const at::Tensor& e, const at::Tensor& h);

}  // namespace gptqb
