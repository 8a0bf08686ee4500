#include "models/column_fields.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/by_format.h"
#include "kernels/transpose_words.h"
#include "methods/huge_pages.h"
#include "methods/parallel_parts.h"
#include "models/bit_fields.h"
#include "models/field_words.h"

namespace gptqb {
namespace {

using Bytes [[gnu::vector_size(16), gnu::may_alias]] = uint8_t;
using Halves [[gnu::vector_size(16), gnu::may_alias]] = uint16_t;
using kernels::transpose;
using kernels::Words;

// Both matrices lie a power of two apart from row to row where layers are large, and so in few sets
// of a cache. A tile is a cache line of outputs and four lines of codes, each of which is read or
// written once and whole.
constexpr int64_t kOuts = 16;
constexpr int64_t kIns = 256;
// Outputs that a thread takes at once: whole runs of the words' rows.
constexpr int64_t kOutsAtOnce = 64;

// The words of a tile, as they lie in the file.
struct WordTile {
  alignas(64) uint32_t rows[kIns / 4][kOuts];
};
// Codes of a tile that is not whole.
struct CodeTile {
  alignas(64) uint8_t rows[kOuts][kIns];
};

template <class Vector>
[[gnu::always_inline]] inline Vector load(const void* from) {
  Vector vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}

// Bytes of two numbers each, the first one lowest, to one number a byte and back.
template <int kBits>
[[gnu::always_inline]] inline void split(Bytes pairs, Bytes& first, Bytes& second) {
  constexpr auto kMask = static_cast<uint8_t>((1U << kBits) - 1);
  const Bytes low = pairs & kMask;
  const Bytes high = reinterpret_cast<Bytes>(reinterpret_cast<Halves>(pairs) >> kBits) & kMask;
  first =
      __builtin_shuffle(low, high, Bytes{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23});
  second = __builtin_shuffle(low, high,
                             Bytes{8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31});
}
template <int kBits>
[[gnu::always_inline]] inline Bytes join(Bytes first, Bytes second) {
  const auto pairs = [](Bytes bytes) {
    const auto halves = reinterpret_cast<Halves>(bytes);
    return reinterpret_cast<Bytes>((halves | halves >> (8 - kBits)) & uint16_t{0xff});
  };
  return __builtin_shuffle(pairs(first), pairs(second),
                           Bytes{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30});
}

// Four words of one stream.
template <int kBits>
[[gnu::always_inline]] inline void unpack_words(Bytes words, uint8_t* codes) {
  if constexpr (kBits == 8) {
    std::memcpy(codes, &words, sizeof(words));
  } else if constexpr (kBits == 4) {
    Bytes parts[2];
    split<4>(words, parts[0], parts[1]);
    std::memcpy(codes, parts, sizeof(parts));
  } else {
    Bytes halves[2], parts[4];
    split<4>(words, halves[0], halves[1]);
    split<2>(halves[0], parts[0], parts[1]);
    split<2>(halves[1], parts[2], parts[3]);
    std::memcpy(codes, parts, sizeof(parts));
  }
}
// `seen`: all bits that the codes have.
template <int kBits>
[[gnu::always_inline]] inline Bytes pack_words(const uint8_t* codes, Bytes& seen) {
  const auto part = [&](int index) {
    const Bytes bytes = load<Bytes>(codes + 16 * index);
    seen |= bytes;
    return bytes;
  };
  if constexpr (kBits == 8) return part(0);
  if constexpr (kBits == 4) return join<4>(part(0), part(1));
  return join<4>(join<2>(part(0), part(1)), join<2>(part(2), part(3)));
}

// A whole tile, codes `stride` bytes apart from row to row.
template <int kBits>
void unpack_tile(const WordTile& words, uint8_t* codes, int64_t stride) {
  if constexpr (kBits == 3) {
    for (int64_t out = 0; out < kOuts; ++out)
      for (int64_t run = 0; run < kIns / kFieldRun; ++run)
        unpack_run<3>(&words.rows[run * 3][out], kOuts, codes + out * stride + run * kFieldRun);
  } else {
    for (int64_t out = 0; out < kOuts; out += 4)
      for (int64_t word = 0; word < kIns * kBits / kWordBits; word += 4) {
        Words square[4];
        for (int64_t i = 0; i < 4; ++i) square[i] = load<Words>(&words.rows[word + i][out]);
        transpose(square);
        for (int64_t i = 0; i < 4; ++i)
          unpack_words<kBits>(reinterpret_cast<Bytes>(square[i]),
                              codes + (out + i) * stride + word * kWordBits / kBits);
      }
  }
}
// Returns all bits that the codes have.
template <int kBits>
uint8_t pack_tile(const uint8_t* codes, int64_t stride, WordTile& words) {
  Bytes seen{};
  if constexpr (kBits == 3) {
    for (int64_t out = 0; out < kOuts; ++out)
      for (int64_t run = 0; run < kIns / kFieldRun; ++run) {
        const uint8_t* const from = codes + out * stride + run * kFieldRun;
        seen |= load<Bytes>(from) | load<Bytes>(from + 16);
        pack_run<3>(from, &words.rows[run * 3][out], kOuts);
      }
  } else {
    for (int64_t out = 0; out < kOuts; out += 4)
      for (int64_t word = 0; word < kIns * kBits / kWordBits; word += 4) {
        Words square[4];
        for (int64_t i = 0; i < 4; ++i)
          square[i] = reinterpret_cast<Words>(
              pack_words<kBits>(codes + (out + i) * stride + word * kWordBits / kBits, seen));
        transpose(square);
        for (int64_t i = 0; i < 4; ++i)
          std::memcpy(&words.rows[word + i][out], &square[i], sizeof(square[i]));
      }
  }
  uint8_t any = 0;
  for (int i = 0; i < 16; ++i) any |= seen[i];
  return any;
}

// A row of a tile to the file and back; whole ones by a few instructions.
[[gnu::always_inline]] inline void copy_words(const uint32_t* from, int64_t count, uint32_t* to) {
  if (count == kOuts)
    std::memcpy(to, from, kOuts * sizeof(uint32_t));
  else
    std::copy_n(from, count, to);
}

// Calls work(out, in) for the first output and input of each tile.
template <class Work>
void for_each_tile(int64_t outs, int64_t ins, const Work& work) {
  parallel_parts(outs, kOutsAtOnce, kOuts, [&](int64_t begin, int64_t end) {
    for (int64_t in = 0; in < ins; in += kIns)
      for (int64_t out = begin; out < end; out += kOuts) work(out, in);
  });
}

}  // namespace

at::Tensor pack_columns(const at::Tensor& values, int64_t bits, const std::string& where) {
  check_fields(values, at::kByte, bits);
  const int64_t outs = values.size(0), ins = values.size(1);
  at::Tensor words = at::empty({words_of(ins, bits), outs}, values.options().dtype(at::kInt));
  const auto* const from = values.const_data_ptr<uint8_t>();
  auto* const to = reinterpret_cast<uint32_t*>(words.mutable_data_ptr<int32_t>());
  std::atomic<bool> beyond = false;
  kernels::by_bits(bits, [&](auto code_bits) {
    constexpr int kBits = decltype(code_bits)::value;
    constexpr auto kBeyond = static_cast<uint8_t>(0xffU << kBits);
    for_each_tile(outs, ins, [&](int64_t out, int64_t in) {
      const int64_t rows = std::min(kOuts, outs - out), columns = std::min(kIns, ins - in);
      const uint8_t* codes = from + out * ins + in;
      WordTile tile;
      uint8_t seen = 0;
      if (rows == kOuts && columns == kIns) {
        seen = pack_tile<kBits>(codes, ins, tile);
      } else {
        CodeTile part = {};
        for (int64_t row = 0; row < rows; ++row)
          std::copy_n(codes + row * ins, columns, part.rows[row]);
        seen = pack_tile<kBits>(part.rows[0], kIns, tile);
      }
      if ((seen & kBeyond) != 0) beyond = true;
      for (int64_t word = 0; word < words_of(columns, kBits); ++word)
        copy_words(tile.rows[word], rows, to + (in * kBits / kWordBits + word) * outs + out);
    });
  });
  if (beyond) check_field_range(values, bits, where);
  return words;
}

at::Tensor unpack_columns(const at::Tensor& words, int64_t bits, int64_t count) {
  check_fields(words, at::kInt, bits);
  check_words(words.size(0), bits, count);
  const int64_t outs = words.size(1);
  at::Tensor values = empty_in_huge_pages({outs, count}, words.options().dtype(at::kByte));
  const auto* const from = reinterpret_cast<const uint32_t*>(words.const_data_ptr<int32_t>());
  auto* const to = values.mutable_data_ptr<uint8_t>();
  kernels::by_bits(bits, [&](auto code_bits) {
    constexpr int kBits = decltype(code_bits)::value;
    for_each_tile(outs, count, [&](int64_t out, int64_t in) {
      const int64_t rows = std::min(kOuts, outs - out), columns = std::min(kIns, count - in);
      const bool whole = rows == kOuts && columns == kIns;
      WordTile tile;
      if (!whole) std::memset(&tile, 0, sizeof(tile));
      for (int64_t word = 0; word < words_of(columns, kBits); ++word)
        copy_words(from + (in * kBits / kWordBits + word) * outs + out, rows, tile.rows[word]);
      uint8_t* const codes = to + out * count + in;
      if (whole) return unpack_tile<kBits>(tile, codes, count);
      CodeTile part;
      unpack_tile<kBits>(tile, part.rows[0], kIns);
      for (int64_t row = 0; row < rows; ++row)
        std::copy_n(part.rows[row], columns, codes + row * count);
    });
  });
  return values;
}

}  // namespace gptqb
