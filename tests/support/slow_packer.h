// Packed checkpoints made by hand: one number after the other, places as the protocol lists them
// (../shared/reference/protocol.md section 7). Independent of models/.
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "methods/quantized_linear.h"

namespace gptqb::test {

// (word, bit) of number k and how many of its bits lie there: two pieces where 3 bits cross.
struct FieldPiece {
  int64_t word = 0;
  int bit = 0;
  int width = 0;
};

inline std::vector<FieldPiece> field_pieces(int64_t k, int64_t bits) {
  if (bits != 3) {
    const int64_t per_word = 32 / bits;
    return {{k / per_word, static_cast<int>(bits * (k % per_word)), static_cast<int>(bits)}};
  }
  const int64_t first = k / 32 * 3;  // 32 numbers in 3 words
  const auto within = static_cast<int>(k % 32);
  if (within < 10) return {{first, 3 * within, 3}};
  if (within == 10) return {{first, 30, 2}, {first + 1, 0, 1}};
  if (within < 21) return {{first + 1, 1 + 3 * (within - 11), 3}};
  if (within == 21) return {{first + 1, 31, 1}, {first + 2, 0, 2}};
  return {{first + 2, 2 + 3 * (within - 22), 3}};
}

// A matrix of words that numbers are put into.
class SlowWords {
 public:
  SlowWords(int64_t rows, int64_t columns) : words_(at::zeros({rows, columns}, at::kLong)) {}

  // Number k of a stream whose word w is at `place(w)` = (row, column).
  template <class Place>
  void put(int64_t k, int64_t bits, int64_t value, const Place& place) {
    int done = 0;
    for (const FieldPiece& piece : field_pieces(k, bits)) {
      const int64_t part = (value >> done) & ((int64_t{1} << piece.width) - 1);
      const auto [row, column] = place(piece.word);
      words_.accessor<int64_t, 2>()[row][column] += part << piece.bit;
      done += piece.width;
    }
  }

  // Words of 32 bits, those from 2^31 on as negative numbers.
  at::Tensor words() const {
    return at::where(words_ >= (int64_t{1} << 31), words_ - (int64_t{1} << 32), words_)
        .to(at::kInt);
  }

 private:
  at::Tensor words_;
};

inline int64_t words_needed(int64_t count, int64_t bits) { return (count * bits + 31) / 32; }

// "qweight", "qzeros", "scales" and "g_idx"; `subtract` is 1 for v1 zero points.
inline std::map<std::string, at::Tensor> slow_gptq(const QuantizedLinear& linear,
                                                   int64_t subtract) {
  const int64_t out = linear.codes.size(0), in = linear.codes.size(1), bits = linear.bits;
  const int64_t groups = linear.scales.size(1);
  const int64_t group_size = linear.group_size < 0 ? in : linear.group_size;
  SlowWords qweight(words_needed(in, bits), out), qzeros(groups, words_needed(out, bits));
  const auto codes = linear.codes.accessor<uint8_t, 2>();
  const auto zeros = linear.zeros.accessor<uint8_t, 2>();
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i)
      qweight.put(i, bits, codes[o][i], [&](int64_t word) { return std::pair(word, o); });
    for (int64_t g = 0; g < groups; ++g)
      qzeros.put(o, bits, zeros[o][g] - subtract, [&](int64_t word) { return std::pair(g, word); });
  }
  at::Tensor g_idx = at::empty({in}, at::kInt);
  for (int64_t i = 0; i < in; ++i) g_idx[i] = i / group_size;
  if (linear.group_of_input.defined()) g_idx = linear.group_of_input;
  return {{"qweight", qweight.words()},
          {"qzeros", qzeros.words()},
          {"scales", linear.scales.t().to(at::kHalf).contiguous()},
          {"g_idx", g_idx}};
}

// "weight_packed", "weight_scale", "weight_shape", and where the grid or the order asks for them
// "weight_zero_point" and "weight_g_idx". Signed numbers plus 2^(b-1) are the canonical ones.
inline std::map<std::string, at::Tensor> slow_compressed(const QuantizedLinear& linear,
                                                         bool symmetric) {
  const int64_t out = linear.codes.size(0), in = linear.codes.size(1), bits = linear.bits;
  const int64_t groups = linear.scales.size(1);
  SlowWords packed(out, words_needed(in, bits)), zero_point(words_needed(out, bits), groups);
  const auto codes = linear.codes.accessor<uint8_t, 2>();
  const auto zeros = linear.zeros.accessor<uint8_t, 2>();
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t i = 0; i < in; ++i)
      packed.put(i, bits, codes[o][i], [&](int64_t word) { return std::pair(o, word); });
    for (int64_t g = 0; g < groups; ++g)
      zero_point.put(o, bits, zeros[o][g], [&](int64_t word) { return std::pair(word, g); });
  }
  std::map<std::string, at::Tensor> tensors = {{"weight_packed", packed.words()},
                                               {"weight_scale", linear.scales.to(at::kHalf)},
                                               {"weight_shape", at::tensor({out, in}, at::kLong)}};
  if (!symmetric) tensors["weight_zero_point"] = zero_point.words();
  if (linear.group_of_input.defined()) tensors["weight_g_idx"] = linear.group_of_input;
  return tensors;
}

// Codes and grids from a seed; scales are numbers of float16, zero points of at least `least_zero`.
struct RandomCodes {
  int64_t out = 64, in = 96, bits = 4, group_size = 32;
  bool symmetric = false, act_order = false;
  int64_t least_zero = 0;
  uint64_t seed = 1;

  QuantizedLinear make() const {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const int64_t levels = int64_t{1} << bits;
    const int64_t groups = group_size < 0 ? 1 : (in + group_size - 1) / group_size;
    QuantizedLinear linear;
    linear.bits = bits;
    linear.group_size = group_size;
    linear.codes = at::randint(levels, {out, in}, generator, at::kByte);
    linear.scales =
        (at::rand({out, groups}, generator) * 0.05 + 0.001).to(at::kHalf).to(at::kFloat);
    linear.zeros = symmetric ? at::full({out, groups}, levels / 2, at::kByte)
                             : at::randint(least_zero, levels, {out, groups}, generator, at::kByte);
    if (act_order && groups > 1) {
      // Group of the place that a column has in a shuffled order.
      const at::Tensor place = at::randperm(in, generator, at::TensorOptions().dtype(at::kLong));
      linear.group_of_input = place.floor_divide(group_size).to(at::kInt);
    }
    return linear;
  }
};

inline bool same_tensor(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.scalar_type() == b.scalar_type() && at::equal(a, b);
}

inline bool same_linear(const QuantizedLinear& a, const QuantizedLinear& b) {
  return same_tensor(a.codes, b.codes) && same_tensor(a.scales, b.scales) &&
         same_tensor(a.zeros, b.zeros) && same_tensor(a.group_of_input, b.group_of_input) &&
         a.bits == b.bits && a.group_size == b.group_size;
}

}  // namespace gptqb::test
