#pragma once

#include <ATen/Context.h>

namespace gptqb {

// Keeps partial sums of 16-bit products in float32 while it lives, whatever way cuBLAS splits them.
class SumInFloat32 {
 public:
  SumInFloat32() { allow_reduced(false); }
  ~SumInFloat32() { allow_reduced(true); }  // ATen's default
  SumInFloat32(const SumInFloat32&) = delete;
  SumInFloat32& operator=(const SumInFloat32&) = delete;

 private:
  static void allow_reduced(bool allow) {
    at::globalContext().setAllowFP16ReductionCuBLAS(allow);
    at::globalContext().setAllowBF16ReductionCuBLAS(allow);
  }
};

}  // namespace gptqb
