// Small numbers of b bits in 32-bit words, as packed checkpoints hold them: number k lies in bits b
// k
// .. b k + b - 1 of a little-endian stream of words. With 2, 4 and 8 bits a word holds whole
// numbers; with 3 bits 32 numbers fill three words and two of them cross into the next (protocol of
// AutoGPTQ, GPTQModel and compressed-tensors alike).
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

namespace gptqb {

// Words that `count` numbers of `bits` take, the last one perhaps in part.
int64_t words_of(int64_t count, int64_t bits);

// Each row of `values` (u8 [rows, count], CPU, contiguous) as a stream of its own: i32 [rows,
// words_of(count, bits)]. Bits behind the last number are 0. Values must be below 2^bits: what is
// above would spill into its neighbours, so Error(where) names the place. `bits` 2, 3, 4 or 8.
at::Tensor pack_fields(const at::Tensor& values, int64_t bits, const std::string& where);

// The inverse: the first `count` numbers of each row of `words` (i32 [rows, words], CPU,
// contiguous), u8 [rows, count].
at::Tensor unpack_fields(const at::Tensor& words, int64_t bits, int64_t count);

// What both ask of their arguments. Throw Error: no contiguous matrix of `dtype` on the CPU, other
// bits; another number of words than `count` numbers take; a number beyond its bits, which would
// change its neighbours, with its place.
void check_fields(const at::Tensor& tensor, at::ScalarType dtype, int64_t bits);
void check_words(int64_t words, int64_t bits, int64_t count);
void check_field_range(const at::Tensor& values, int64_t bits, const std::string& where);

}  // namespace gptqb
