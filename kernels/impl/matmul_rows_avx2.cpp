#include "kernels/impl/cpu_level.h"
#if GPTQB_X86_LEVELS

#include <cstring>

#include "kernels/impl/matmul_rows.h"

#define GPTQB_LEVEL [[gnu::target("arch=x86-64-v3")]]

namespace gptqb::kernels {
namespace {

GPTQB_LEVEL [[gnu::always_inline]] inline void add_products(RowSums& sums, const RowLanes& codes,
                                                            const RowInputs& inputs) {
  using Signed [[gnu::vector_size(32)]] = short;
  sums += (RowSums)__builtin_ia32_pmaddwd256((Signed)codes, (Signed)inputs);
  // Keeps the order of additions: the compiler would take all products first, and spill them.
  asm("" : "+x"(sums));
}

// In 16 bits: four products of a code and a digit, of at most 15 x 128, in pairs.
struct DigitSums {
  using Bytes [[gnu::vector_size(32)]] = char;

  RowInputs high{};
  RowInputs low{};

  GPTQB_LEVEL [[gnu::always_inline]] void add(const RowLanes& codes, const RowInputs& high_digits,
                                              const RowInputs& low_digits) {
    high += (RowInputs)__builtin_ia32_pmaddubsw256((Bytes)codes, (Bytes)high_digits);
    low += (RowInputs)__builtin_ia32_pmaddubsw256((Bytes)codes, (Bytes)low_digits);
    asm("" : "+x"(high), "+x"(low));
  }
  GPTQB_LEVEL [[gnu::always_inline]] void add_to(RowSums& sums) const {
    add_products(sums, RowLanes{} + 256, high);
    add_products(sums, RowLanes{} + 1, low);
  }
};

GPTQB_LEVEL [[gnu::always_inline]] inline void widen_four(const uint16_t* bits, float* floats) {
  using Halves [[gnu::vector_size(16)]] = short;
  using Floats [[gnu::vector_size(16)]] = float;
  using Pair [[gnu::vector_size(16)]] = int64_t;
  int64_t four = 0;
  std::memcpy(&four, bits, sizeof(four));
  const Pair packed = {four, 0};
  const Floats wide = __builtin_ia32_vcvtph2ps((Halves)packed);
  std::memcpy(floats, &wide, sizeof(wide));
}

GPTQB_LEVEL [[gnu::always_inline]] inline void widen_four(const uint8_t* bytes, int32_t* words) {
  using Bytes [[gnu::vector_size(16)]] = char;
  using Words [[gnu::vector_size(16)]] = int;
  int32_t four = 0;
  std::memcpy(&four, bytes, sizeof(four));
  const Words packed = {four, 0, 0, 0};
  const Words wide = __builtin_ia32_pmovzxbd128((Bytes)packed);
  std::memcpy(words, &wide, sizeof(wide));
}

}  // namespace
}  // namespace gptqb::kernels

#include "kernels/impl/matmul_rows_body.h"

namespace gptqb::kernels {

RowBody row_body_avx2() { return {.name = "avx2", .fix = fix_group, .multiply = multiply}; }

}  // namespace gptqb::kernels
#endif
