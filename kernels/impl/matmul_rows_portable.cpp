#include "kernels/half_bits.h"
#include "kernels/impl/matmul_rows.h"

#define GPTQB_LEVEL

namespace gptqb::kernels {
namespace {

[[gnu::always_inline]] inline void add_products(RowSums& sums, const RowLanes& codes,
                                                const RowInputs& inputs) {
  // Even lanes are the lower halves of words.
  const RowSums c = (RowSums)codes;
  const RowSums x = (RowSums)inputs;
  sums += (c & 0xffff) * (x << 16 >> 16) + (c >> 16) * (x >> 16);
}

[[gnu::always_inline]] inline void widen_four(const uint16_t* bits, float* floats) {
  for (int i = 0; i < 4; ++i) floats[i] = float_of_half(bits[i]);
}

[[gnu::always_inline]] inline void widen_four(const uint8_t* bytes, int32_t* words) {
  for (int i = 0; i < 4; ++i) words[i] = bytes[i];
}

}  // namespace
}  // namespace gptqb::kernels

#include "kernels/impl/matmul_rows_body.h"

namespace gptqb::kernels {

RowBody row_body_portable() { return {.name = "portable", .fix = fix_group, .multiply = multiply}; }

}  // namespace gptqb::kernels
