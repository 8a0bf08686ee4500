#include "models/bit_fields.h"

#include <algorithm>

#include "common/error.h"
#include "common/round_up.h"
#include "kernels/by_format.h"
#include "methods/parallel_parts.h"
#include "models/field_words.h"
#include "models/message_text.h"

namespace gptqb {
namespace {

// Rows that a thread takes at once.
constexpr int64_t kRows = 64;

template <int Bits>
void pack_row(const uint8_t* values, int64_t count, uint32_t* words) {
  const int64_t whole = count / kFieldRun;
  for (int64_t run = 0; run < whole; ++run)
    pack_run<Bits>(values + run * kFieldRun, words + run * Bits, 1);
  const int64_t rest = count - whole * kFieldRun;
  if (rest == 0) return;
  uint8_t padded[kFieldRun] = {};
  uint32_t last[Bits];
  std::copy_n(values + whole * kFieldRun, rest, padded);
  pack_run<Bits>(padded, last, 1);
  std::copy_n(last, words_of(rest, Bits), words + whole * Bits);
}

template <int Bits>
void unpack_row(const uint32_t* words, int64_t count, uint8_t* values) {
  const int64_t whole = count / kFieldRun;
  for (int64_t run = 0; run < whole; ++run)
    unpack_run<Bits>(words + run * Bits, 1, values + run * kFieldRun);
  const int64_t rest = count - whole * kFieldRun;
  if (rest == 0) return;
  uint32_t last[Bits] = {};
  uint8_t padded[kFieldRun];
  std::copy_n(words + whole * Bits, words_of(rest, Bits), last);
  unpack_run<Bits>(last, 1, padded);
  std::copy_n(padded, rest, values + whole * kFieldRun);
}

}  // namespace

int64_t words_of(int64_t count, int64_t bits) { return divide_up(count * bits, kWordBits); }

void check_fields(const at::Tensor& tensor, at::ScalarType dtype, int64_t bits) {
  if (!tensor.defined() || tensor.dim() != 2 || tensor.scalar_type() != dtype || !tensor.is_cpu() ||
      !tensor.is_contiguous())
    throw Error("bit fields", std::string("expected a contiguous matrix of ") +
                                  at::toString(dtype) + " on the CPU, got another tensor");
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
    throw Error("bit fields", "expected 2, 3, 4 or 8 bits, got " + std::to_string(bits));
}

void check_words(int64_t words, int64_t bits, int64_t count) {
  const int64_t wanted = words_of(count, bits);
  if (words != wanted)
    throw Error("bit fields", "expected " + std::to_string(wanted) + " words of " +
                                  std::to_string(count) + " numbers of " + std::to_string(bits) +
                                  " bits, got " + std::to_string(words));
}

void check_field_range(const at::Tensor& values, int64_t bits, const std::string& where) {
  if (bits == 8 || values.numel() == 0) return;
  const int64_t limit = (int64_t{1} << bits) - 1;
  if (values.max().item<int64_t>() <= limit) return;
  const int64_t at = values.gt(limit).view({-1}).to(at::kByte).argmax().item<int64_t>();
  throw Error(where, "expected numbers of at most " + std::to_string(limit) + ", got " +
                         std::to_string(values.view({-1})[at].item<int64_t>()) + " at " +
                         index_text(at, values.sizes().vec()));
}

at::Tensor pack_fields(const at::Tensor& values, int64_t bits, const std::string& where) {
  check_fields(values, at::kByte, bits);
  check_field_range(values, bits, where);
  const int64_t rows = values.size(0), count = values.size(1), width = words_of(count, bits);
  at::Tensor words = at::empty({rows, width}, values.options().dtype(at::kInt));
  const auto* from = values.const_data_ptr<uint8_t>();
  auto* to = reinterpret_cast<uint32_t*>(words.mutable_data_ptr<int32_t>());
  kernels::by_bits(bits, [&](auto code_bits) {
    parallel_parts(rows, kRows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        pack_row<decltype(code_bits)::value>(from + row * count, count, to + row * width);
    });
  });
  return words;
}

at::Tensor unpack_fields(const at::Tensor& words, int64_t bits, int64_t count) {
  check_fields(words, at::kInt, bits);
  check_words(words.size(1), bits, count);
  const int64_t rows = words.size(0), width = words.size(1);
  at::Tensor values = at::empty({rows, count}, words.options().dtype(at::kByte));
  const auto* from = reinterpret_cast<const uint32_t*>(words.const_data_ptr<int32_t>());
  auto* to = values.mutable_data_ptr<uint8_t>();
  kernels::by_bits(bits, [&](auto code_bits) {
    parallel_parts(rows, kRows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        unpack_row<decltype(code_bits)::value>(from + row * width, count, to + row * count);
    });
  });
  return values;
}

}  // namespace gptqb
