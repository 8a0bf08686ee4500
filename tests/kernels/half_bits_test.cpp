// float16 and bfloat16 as bits, against their definitions.
#include "kernels/half_bits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gptqb::kernels {
namespace {

// The number that `bits` of a format with so many exponent and fraction bits stand for.
double defined(uint32_t bits, int exponent_bits, int fraction_bits) {
  const auto fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
  const int exponent = static_cast<int>(bits >> fraction_bits & ((1U << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> 15) != 0 ? -1 : 1;
  const double step = std::ldexp(1, -fraction_bits);
  if (exponent == 0) return sign * std::ldexp(fraction * step, 1 - bias);
  return sign * std::ldexp(1 + fraction * step, exponent - bias);
}

TEST(HalfBits, EveryFiniteNumberIsWhatItsBitsSayAndComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if ((bits >> 10 & 31) != 31) {
      ASSERT_EQ(float_of_half(half), defined(bits, 5, 10)) << bits;
      ASSERT_EQ(half_of_float(float_of_half(half)), half);
    }
    if ((bits >> 7 & 255) != 255) {
      ASSERT_EQ(float_of_bfloat(half), static_cast<float>(defined(bits, 8, 7))) << bits;
      ASSERT_EQ(bfloat_of_float(float_of_bfloat(half)), half);
    }
  }
  EXPECT_TRUE(std::isinf(float_of_half(0x7c00)) && std::isinf(float_of_bfloat(0xff80)));
  EXPECT_TRUE(std::isnan(float_of_half(0x7c01)) && std::isnan(float_of_bfloat(0x7f81)));
}

// Half way between two neighbours goes to the even one, a little more or less to the nearer.
TEST(HalfBits, RoundsToNearestEven) {
  for (uint32_t low = 0; low < 0x7bff; ++low) {
    const auto bits = static_cast<uint16_t>(low);
    const auto next = static_cast<uint16_t>(low + 1);
    const float middle = (float_of_half(bits) + float_of_half(next)) / 2;
    ASSERT_EQ(half_of_float(middle), low % 2 == 0 ? bits : next) << low;
    ASSERT_EQ(half_of_float(std::nextafter(middle, 0.F)), bits);
    ASSERT_EQ(half_of_float(-std::nextafter(middle, INFINITY)), next | 0x8000);
  }
  for (uint32_t low = 0; low < 0x7f7f; ++low) {
    const auto bits = static_cast<uint16_t>(low);
    const auto next = static_cast<uint16_t>(low + 1);
    const auto middle = static_cast<float>(
        (static_cast<double>(float_of_bfloat(bits)) + static_cast<double>(float_of_bfloat(next))) /
        2);
    ASSERT_EQ(bfloat_of_float(middle), low % 2 == 0 ? bits : next) << low;
    ASSERT_EQ(bfloat_of_float(std::nextafter(middle, 0.F)), bits);
    ASSERT_EQ(bfloat_of_float(-std::nextafter(middle, INFINITY)), next | 0x8000);
  }
  EXPECT_EQ(half_of_float(65519.F), 0x7bff);
  EXPECT_EQ(half_of_float(65520.F), 0x7c00);
  EXPECT_EQ(half_of_float(-1e30F), 0xfc00);
  EXPECT_TRUE(std::isnan(float_of_half(half_of_float(NAN))));
  EXPECT_TRUE(std::isnan(float_of_bfloat(bfloat_of_float(NAN))));
}

}  // namespace
}  // namespace gptqb::kernels
