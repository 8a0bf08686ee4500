// The canonical, unpacked form of a quantized linear. Every packed layout converts from and to
// this.
#pragma once

#include <ATen/ATen.h>

#include <string>

namespace gptqb {

// w[o, i] = scales[o, g(i)] * (codes[o, i] - zeros[o, g(i)]), with g(i) = group_of_input[i], or i /
// group_size where group_of_input is undefined. Ternary layers have levels instead of scales and
// zeros: w[o, i] = levels[o, g(i), codes[o, i]]. Tensors live on one device, contiguous.
struct QuantizedLinear {
  at::Tensor codes;           // u8 [out, in], 0 .. 2^bits - 1; ternary: 0 .. 2
  at::Tensor scales;          // f32 [out, groups], finite and > 0
  at::Tensor zeros;           // u8 [out, groups], 0 .. 2^bits - 1
  at::Tensor levels;          // ternary: f32 [out, groups, 3], {at most 0, 0, at least 0}
  at::Tensor group_of_input;  // i32 [in] or undefined
  int64_t bits = 4;           // QuantConfig::kTernary: `levels` is defined
  int64_t group_size = -1;    // columns per group, -1: one group a row

  int64_t out_features() const { return codes.size(0); }
  int64_t in_features() const { return codes.size(1); }
  int64_t groups() const { return ternary() ? levels.size(1) : scales.size(1); }
  bool ternary() const { return levels.defined(); }

  // The weights [out, in] in `dtype`: computed in f32, rounded once.
  at::Tensor dequantize(at::ScalarType dtype) const;

  // Bits that storing this takes: codes, a scale of `scale_bits` and a zero of `bits` per group, 32
  // bits an input for group_of_input where present. Ternary: 2 bits a code, as they would be packed
  // (not the log2(3) of an ideal coder), and two levels of `scale_bits` per group, since the middle
  // one is 0.
  int64_t stored_bits(int64_t scale_bits) const;

  // 16 hex digits, the same for the same codes on any device; not cryptographic.
  std::string codes_hash() const;

  // Throws Error naming `where` and the tensor: wrong shape, dtype, code or zero out of range,
  // scale not finite.
  void validate(const std::string& where) const;
  // The same of all but the codes, which are elsewhere, of a matrix [rows, columns].
  void validate_grids(const std::string& where, int64_t rows, int64_t columns) const;
};

}  // namespace gptqb
