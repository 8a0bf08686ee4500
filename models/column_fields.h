// qweight of packed checkpoints: each output's codes are a stream of words (bit_fields.h) in a
// column of its own, so packing them is a transpose too.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>

namespace gptqb {

// The transpose of pack_fields(values): i32 [words_of(columns, bits), rows]. `values` u8 [rows,
// columns], CPU, contiguous, each below 2^bits; else Error(where) names the place.
at::Tensor pack_columns(const at::Tensor& values, int64_t bits, const std::string& where);

// The inverse: u8 [columns of `words`, count], the first `count` numbers of each column of `words`
// (i32 [words_of(count, bits), rows], CPU, contiguous).
at::Tensor unpack_columns(const at::Tensor& words, int64_t bits, int64_t count);

}  // namespace gptqb
