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

// In 16 bits: four products of a code and a digit, of at most 15 x 128, in pairs.
struct DigitSums {
  RowInputs high{};
  RowInputs low{};

  [[gnu::always_inline]] static void add_pairs(RowInputs& sums, const RowLanes& codes,
                                               const RowInputs& digits) {
    const RowInputs c = (RowInputs)codes;
    sums += (c & 0xff) * (digits << 8 >> 8) + (c >> 8) * (digits >> 8);
  }
  [[gnu::always_inline]] void add(const RowLanes& codes, const RowInputs& high_digits,
                                  const RowInputs& low_digits) {
    add_pairs(high, codes, high_digits);
    add_pairs(low, codes, low_digits);
  }
  [[gnu::always_inline]] void add_to(RowSums& sums) const {
    add_products(sums, RowLanes{} + 256, high);
    add_products(sums, RowLanes{} + 1, low);
  }
};

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
