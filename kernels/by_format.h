// Bits and spans, which are known when work starts, made constants of its code.
#pragma once

#include <cstdint>
#include <type_traits>

namespace gptqb::kernels {

// Calls `call` with bits of a code, 2, 3, 4 or 8, as a std::integral_constant.
template <class Call>
void by_bits(int64_t bits, const Call& call) {
  switch (bits) {
    case 2:
      return call(std::integral_constant<int, 2>());
    case 3:
      return call(std::integral_constant<int, 3>());
    case 4:
      return call(std::integral_constant<int, 4>());
    default:
      return call(std::integral_constant<int, 8>());
  }
}

// The same with the columns that share a scale in one block of 128: 16, 32, 64 or all.
template <class Call>
void by_span(int64_t scale_span, const Call& call) {
  switch (scale_span) {
    case 16:
      return call(std::integral_constant<int, 16>());
    case 32:
      return call(std::integral_constant<int, 32>());
    case 64:
      return call(std::integral_constant<int, 64>());
    default:
      return call(std::integral_constant<int, 128>());
  }
}

}  // namespace gptqb::kernels
