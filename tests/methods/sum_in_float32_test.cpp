// What cuBLAS may do with partial sums is ATen's setting, of the whole process.
#include "methods/sum_in_float32.h"

#include <gtest/gtest.h>

#include <utility>

namespace gptqb {
namespace {

using Option = at::CuBLASReductionOption;

std::pair<Option, Option> allowed() {
  return {at::globalContext().allowFP16ReductionCuBLAS(),
          at::globalContext().allowBF16ReductionCuBLAS()};
}

TEST(SumInFloat32, LeavesWhatItFound) {
  const auto before = allowed();
  for (const auto& [reduces, splits] :
       {std::pair(true, true), std::pair(false, true), std::pair(false, false)}) {
    at::globalContext().setAllowFP16ReductionCuBLAS(reduces, splits);
    at::globalContext().setAllowBF16ReductionCuBLAS(false, true);
    const auto set = allowed();
    {
      const SumInFloat32 exact;
      EXPECT_NE(allowed().first, Option::AllowReducedPrecisionWithSplitK);
      EXPECT_NE(allowed().second, Option::AllowReducedPrecisionWithSplitK);
    }
    EXPECT_EQ(allowed(), set);
  }
  at::globalContext().setAllowFP16ReductionCuBLAS(true, true);
  at::globalContext().setAllowBF16ReductionCuBLAS(true, true);
  EXPECT_EQ(allowed(), before);
}

}  // namespace
}  // namespace gptqb
