#include "kernels/divider.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace gptqb::kernels {
namespace {

Divider<float> by(float divisor) {
  Divider<float> divider;
  divider.prepare(divisor);
  return divider;
}

TEST(Divider, EqualsDivisionForRandomNumbers) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2'000'000; ++i) {
    // Any divisor between 2^-140 and 2^60, and quotients between 2^-10 and 2^29.
    const uint64_t bits = random();
    const float divisor = std::ldexp(1.0F + static_cast<float>(bits & 0x7FFFFF) * 0x1p-23F,
                                     static_cast<int>((bits >> 23) % 200) - 140);
    const float factor = std::ldexp(1.0F + static_cast<float>((bits >> 40) & 0x7FFFFF) * 0x1p-23F,
                                    static_cast<int>(random() % 39) - 10);
    const float value = (bits >> 63) != 0 ? -divisor * factor : divisor * factor;
    if (std::fabs(value / divisor) < 0x1p-10F) continue;  // a denormal value, rounded
    ASSERT_EQ(by(divisor)(value), value / divisor) << value << " / " << divisor;
  }
}

// Where a code is decided: values next to the middle between two steps of a grid.
TEST(Divider, EqualsDivisionNextToRoundingBoundaries) {
  std::mt19937 random(2);
  for (int i = 0; i < 20'000; ++i) {
    const float divisor =
        std::bit_cast<float>(static_cast<uint32_t>(0x3C000000U + random() % 0x02000000U));
    for (int step = -16; step < 16; ++step) {
      float value = (static_cast<float>(step) + 0.5F) * divisor;
      for (int k = 0; k < 3; ++k) value = std::nextafter(value, -1e30F);
      for (int k = 0; k < 7; ++k, value = std::nextafter(value, 1e30F))
        ASSERT_EQ(by(divisor)(value), value / divisor) << value << " / " << divisor;
    }
  }
}

TEST(Divider, KeepsTheSmallestAndLargestNumbersInTheirPlace) {
  const float smallest = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(by(smallest)(smallest), 1);
  EXPECT_EQ(by(smallest)(7 * smallest), 7);
  EXPECT_EQ(by(1.0F)(0.0F), 0);
  EXPECT_LE(std::fabs(by(3e-30F)(7e-37F)), 0x1p-10F);
  EXPECT_GE(by(smallest)(1.0F), 1e9F);
  EXPECT_LE(by(1e-20F)(-1e20F), -1e9F);
  EXPECT_GE(by(1e-30F)(1e30F), 1e9F);
}

}  // namespace
}  // namespace gptqb::kernels
