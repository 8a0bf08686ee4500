// tr(E H E^T): what an error E of a layer's weights does to its outputs, H being the Hessian of its
// inputs (Frantar et al. 2023, section 3.1, where it is the objective).
#pragma once

#include <ATen/ATen.h>

namespace gptqb {

// tr(e H e^T), products in H's dtype, sums in f64. `e` [rows, in] in H's dtype; `h` [in, in]
// symmetric, f32 or f64, on one device.
double quadratic_form(const at::Tensor& e, const at::Tensor& h);

// The same to about four digits where H is f32 on a GPU, at a tenth of the time: `e`, scaled by a
// power of two, is rounded to float16, multiplied on tensor cores and summed in float32. Roundings
// of single weights average out over rows and columns (tests/gpu/quadratic_form_cuda_test.cpp holds
// it against f64). Elsewhere quadratic_form().
double rounded_quadratic_form(const at::Tensor& e, const at::Tensor& h);

}  // namespace gptqb
