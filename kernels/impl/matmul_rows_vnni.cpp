#include "kernels/impl/cpu_level.h"
#if GPTQB_X86_LEVELS

#include <cstring>

#include "kernels/impl/matmul_rows.h"

#define GPTQB_LEVEL [[gnu::target("arch=x86-64-v4,avx512vnni")]]

namespace gptqb::kernels {
namespace {

GPTQB_LEVEL [[gnu::always_inline]] inline void add_products(RowSums& sums, const RowLanes& codes,
                                                            const RowInputs& inputs) {
  using Words [[gnu::vector_size(32)]] = int;
  sums = (RowSums)__builtin_ia32_vpdpwssd_v8si((Words)sums, (Words)codes, (Words)inputs);
}

struct DigitSums {
  using Words [[gnu::vector_size(32)]] = int;

  RowSums high{};
  RowSums low{};

  GPTQB_LEVEL [[gnu::always_inline]] void add(const RowLanes& codes, const RowInputs& high_digits,
                                              const RowInputs& low_digits) {
    high = (RowSums)__builtin_ia32_vpdpbusd_v8si((Words)high, (Words)codes, (Words)high_digits);
    low = (RowSums)__builtin_ia32_vpdpbusd_v8si((Words)low, (Words)codes, (Words)low_digits);
  }
  GPTQB_LEVEL [[gnu::always_inline]] void add_to(RowSums& sums) const { sums += (high << 8) + low; }
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

RowBody row_body_vnni() { return {.name = "vnni", .fix = fix_group, .multiply = multiply}; }

}  // namespace gptqb::kernels
#endif
