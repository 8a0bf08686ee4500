// How `cpu_rows` computes, and its bodies, one for each instruction set.
//
// Activations become 16-bit integers: per token and chunk of at most 128 columns (a scale span, if
// that is shorter), x is rounded to a multiple of step = max|x| / 32639. Sums of x (code - zero)
// over a chunk are then exact in 32 bits; they are multiplied by step and scale and added in
// float32. Against exact arithmetic this is off by
//   - at most step / 2, so 1 / 65278 of the chunk's largest |x|, for each activation (2^-112 where
//     all of a chunk is below 2^-96),
//   - one rounding of 2^-24 for each chunk's conversion, step, scale and addition: (chunks + 12)
//     2^-24 of sum |x (code - zero)| scale,
// and the rounding of y. Activations that are not finite make their token's results NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/row_layout.h"

namespace gptqb::kernels {

using RowLanes [[gnu::vector_size(32), gnu::may_alias]] = uint16_t;
using RowInputs [[gnu::vector_size(32), gnu::may_alias]] = int16_t;
using RowSums [[gnu::vector_size(32), gnu::may_alias]] = int32_t;
using RowFloats [[gnu::vector_size(32), gnu::may_alias]] = float;

constexpr int64_t kSumLanes = 8;

// Some of a product's tokens as integers. Tokens are taken four at a time, the rest two, then one;
// the chunks of such a group lie beside each other: [groups][chunks][tokens of the group] chunks. A
// chunk is what follows, in this order:
//   int16 [columns of a chunk]   x / step, in packed order; or digits, below
//   int32 [8]                    minus what a zero point of 1 (symmetric: the zero point) takes off
//                                the sums, lane by lane
//   float [8]                    step
// A single token needs fewer operations for a code of 2 or 4 bits if it meets codes in bytes. Then
// x is 256 high + low, digits of 8 bits with a sign, and chunks hold four vectors of high digits,
// then four of low ones. Each is for two slots that lie at the same place in the two bytes of a
// lane.
constexpr bool has_digits(int64_t bits, int64_t chunk) {
  return (bits == 2 || bits == 4) && chunk == 128;
}

struct FixedInputs {
  int64_t bits = 0;   // of the codes
  int64_t first = 0;  // of the product's tokens
  int64_t tokens = 0;
  int64_t columns = 0;  // packed
  int64_t chunk = 0;    // columns that share a step: 16, 32, 64 or 128
  std::byte* memory = nullptr;

  // Whether a group of so many tokens is kept as digits.
  bool digits(int64_t group) const { return group == 1 && has_digits(bits, chunk); }
  int64_t chunks() const { return columns / chunk; }
  int64_t chunk_bytes() const { return 2 * chunk + 64; }
  int64_t bytes() const { return tokens * chunks() * chunk_bytes(); }
  // Tokens of the group that `token` begins.
  int64_t group(int64_t token) const {
    const int64_t left = tokens - token;
    return left >= 4 ? 4 : (left >= 2 ? 2 : 1);
  }
};

struct RowBody {
  std::string_view name;
  // Fills the chunks of the group that `token` begins (counted from inputs.first).
  void (*fix)(const MatmulArguments& arguments, const FixedInputs& inputs, int64_t token) = nullptr;
  // Rows of strips [first, last) times all tokens of `inputs`.
  void (*multiply)(const MatmulArguments& arguments, const FixedInputs& inputs, int64_t first,
                   int64_t last) = nullptr;
};

RowBody row_body_portable();
// Only on x86-64; `vnni` needs AVX-512 VL and VNNI.
RowBody row_body_avx2();
RowBody row_body_vnni();

// Those that this processor runs, the fastest first.
const std::vector<RowBody>& row_bodies();

// MatmulKernel::launch() by one of them.
void multiply_rows(const MatmulArguments& arguments, const RowBody& body);

}  // namespace gptqb::kernels
