// The 16-bit float types of ATen and of kernels, and their names.
#pragma once

#include <ATen/ATen.h>

#include "kernels/half_type.h"

namespace gptqb {

// Of one of both types.
inline kernels::HalfType half_type(at::ScalarType type) {
  return type == at::kHalf ? kernels::HalfType::kFloat16 : kernels::HalfType::kBFloat16;
}

// Of a tensor of 16-bit floats.
inline kernels::HalfType half_type(const at::Tensor& tensor) {
  return half_type(tensor.scalar_type());
}

// "float16", "bfloat16" or "float32", as configurations of models say it.
inline const char* type_name(at::ScalarType type) {
  return type == at::kHalf ? "float16" : type == at::kBFloat16 ? "bfloat16" : "float32";
}

inline at::ScalarType scalar_type(kernels::HalfType type) {
  return type == kernels::HalfType::kFloat16 ? at::kHalf : at::kBFloat16;
}

inline const char* type_name(kernels::HalfType type) { return type_name(scalar_type(type)); }

}  // namespace gptqb
