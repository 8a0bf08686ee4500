#pragma once

#include <ATen/Context.h>

namespace gptqb {

// Keeps partial sums of 16-bit products in float32 while it lives, whatever way cuBLAS splits them.
// What was allowed before is allowed again afterwards.
class SumInFloat32 {
 public:
  SumInFloat32() {
    context().setAllowFP16ReductionCuBLAS(false);
    context().setAllowBF16ReductionCuBLAS(false);
  }
  ~SumInFloat32() {
    context().setAllowFP16ReductionCuBLAS(reduces(of_float16_), splits(of_float16_));
    context().setAllowBF16ReductionCuBLAS(reduces(of_bfloat16_), splits(of_bfloat16_));
  }
  SumInFloat32(const SumInFloat32&) = delete;
  SumInFloat32& operator=(const SumInFloat32&) = delete;

 private:
  using Option = at::CuBLASReductionOption;

  static at::Context& context() { return at::globalContext(); }
  static bool reduces(Option option) { return option == Option::AllowReducedPrecisionWithSplitK; }
  static bool splits(Option option) {
    return option != Option::DisallowReducedPrecisionDisallowSplitK;
  }

  Option of_float16_ = context().allowFP16ReductionCuBLAS();
  Option of_bfloat16_ = context().allowBF16ReductionCuBLAS();
};

}  // namespace gptqb
