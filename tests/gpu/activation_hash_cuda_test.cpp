#include <gtest/gtest.h>

#include "methods/activation_hash.h"

namespace gptqb {
namespace {

TEST(ActivationHashCuda, EqualsTheCpuForEverySizeAndDtype) {
  at::manual_seed(7);
  for (const auto dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble})
    for (const int64_t count : {1, 7, 8, 1000, 4097, 20000003}) {
      const auto x = at::randn({count}).to(dtype);
      EXPECT_EQ(activation_hash(x.cuda(), 5), activation_hash(x, 5)) << dtype << ", " << count;
      if (count > 1) {  // a part that starts where no vector does
        EXPECT_EQ(activation_hash(x.cuda().slice(0, 1)), activation_hash(x.slice(0, 1)));
      }
    }
}

}  // namespace
}  // namespace gptqb
