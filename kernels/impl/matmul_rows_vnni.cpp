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

GPTQB_LEVEL [[gnu::always_inline]] inline void widen_four(const uint16_t* bits, float* floats) {
  using Halves [[gnu::vector_size(16)]] = short;
  using Floats [[gnu::vector_size(16)]] = float;
  Halves halves{};
  std::memcpy(&halves, bits, 4 * sizeof(uint16_t));
  const Floats wide = __builtin_ia32_vcvtph2ps(halves);
  std::memcpy(floats, &wide, sizeof(wide));
}

}  // namespace
}  // namespace gptqb::kernels

#include "kernels/impl/matmul_rows_body.h"

namespace gptqb::kernels {

RowBody row_body_vnni() { return {.fix = fix_token, .multiply = multiply}; }

}  // namespace gptqb::kernels
#endif
