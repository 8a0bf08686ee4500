// float16 and bfloat16 as bits, for host code without a tensor library. Rounding is to nearest,
// ties to even; float16 overflows to infinity.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/half_type.h"

namespace gptqb::kernels {

inline float float_of_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t exponent = bits >> 10 & 0x1fU;
  const uint32_t fraction = bits & 0x3ffU;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exactly
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | fraction << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

inline uint16_t half_of_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000U);
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);
  if (magnitude >= 0x47800000U) return static_cast<uint16_t>(sign | 0x7c00U);  // 65536 and above
  if (magnitude < 0x38800000U) {  // below 2^-14, float16's smallest normal number
    // Adding 0.5 leaves the value in steps of 2^-24, rounded by the addition.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000U));
  }
  const uint32_t rounded = magnitude + 0xfffU + (magnitude >> 13 & 1U);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

inline float float_of_bfloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t bfloat_of_float(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>(bits >> 16 | 0x40U);
  return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

inline float float_of(HalfType type, uint16_t bits) {
  return type == HalfType::kFloat16 ? float_of_half(bits) : float_of_bfloat(bits);
}
inline uint16_t bits_of(HalfType type, float value) {
  return type == HalfType::kFloat16 ? half_of_float(value) : bfloat_of_float(value);
}

}  // namespace gptqb::kernels
