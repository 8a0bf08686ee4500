// Runs of small numbers to words and back, without loops over single bits: what bit_fields.cpp and
// column_fields.cpp are made of.
#pragma once

#include <cstdint>
#include <cstring>

namespace gptqb {

constexpr int64_t kWordBits = 32;
// Numbers that fill whole words whatever their bits.
constexpr int64_t kFieldRun = 32;

// Eight numbers of kBits, one behind the other, to one a byte: halves move apart three times.
template <int kBits>
[[gnu::always_inline]] inline uint64_t spread_fields(uint64_t fields) {
  constexpr uint64_t kFours = ((uint64_t{1} << 4 * kBits) - 1) * 0x0000000100000001U;
  constexpr uint64_t kPairs = ((uint64_t{1} << 2 * kBits) - 1) * 0x0001000100010001U;
  constexpr uint64_t kOnes = ((uint64_t{1} << kBits) - 1) * 0x0101010101010101U;
  fields = (fields | fields << (32 - 4 * kBits)) & kFours;
  fields = (fields | fields << (16 - 2 * kBits)) & kPairs;
  return (fields | fields << (8 - kBits)) & kOnes;
}

// The inverse, of bytes below 2^kBits.
template <int kBits>
[[gnu::always_inline]] inline uint64_t join_fields(uint64_t bytes) {
  constexpr uint64_t kPairs = ((uint64_t{1} << 2 * kBits) - 1) * 0x0001000100010001U;
  constexpr uint64_t kFours = ((uint64_t{1} << 4 * kBits) - 1) * 0x0000000100000001U;
  bytes = (bytes | bytes >> (8 - kBits)) & kPairs;
  bytes = (bytes | bytes >> (16 - 2 * kBits)) & kFours;
  return bytes | bytes >> (32 - 4 * kBits);
}

// 32 numbers of a stream whose words lie `apart` words from each other, to bytes.
template <int kBits>
[[gnu::always_inline]] inline void unpack_run(const uint32_t* words, int64_t apart,
                                              uint8_t* values) {
  uint64_t eights[4];
  if constexpr (kBits == 2) {
    for (int i = 0; i < 4; ++i)
      eights[i] = spread_fields<2>(words[i / 2 * apart] >> 16 * (i % 2) & 0xffffU);
  } else if constexpr (kBits == 3) {
    const uint64_t a = words[0], b = words[apart], c = words[2 * apart];
    eights[0] = spread_fields<3>(a & 0xffffffU);
    eights[1] = spread_fields<3>((a >> 24 | b << 8) & 0xffffffU);
    eights[2] = spread_fields<3>((b >> 16 | c << 16) & 0xffffffU);
    eights[3] = spread_fields<3>(c >> 8);
  } else if constexpr (kBits == 4) {
    for (int i = 0; i < 4; ++i) eights[i] = spread_fields<4>(words[i * apart]);
  } else {
    for (int i = 0; i < 4; ++i)
      eights[i] = words[2 * i * apart] | uint64_t{words[(2 * i + 1) * apart]} << 32;
  }
  std::memcpy(values, eights, sizeof(eights));
}

// The inverse, of bytes below 2^kBits.
template <int kBits>
[[gnu::always_inline]] inline void pack_run(const uint8_t* values, uint32_t* words, int64_t apart) {
  uint64_t eights[4];
  std::memcpy(eights, values, sizeof(eights));
  if constexpr (kBits < 8)
    for (uint64_t& each : eights) each = join_fields<kBits>(each);
  const auto word = [&](int64_t index, uint64_t bits) {
    words[index * apart] = static_cast<uint32_t>(bits);
  };
  if constexpr (kBits == 2) {
    for (int i = 0; i < 2; ++i)
      word(i, (eights[2 * i] & 0xffffU) | (eights[2 * i + 1] & 0xffffU) << 16);
  } else if constexpr (kBits == 3) {
    for (uint64_t& each : eights) each &= 0xffffffU;
    word(0, eights[0] | eights[1] << 24);
    word(1, eights[1] >> 8 | eights[2] << 16);
    word(2, eights[2] >> 16 | eights[3] << 8);
  } else if constexpr (kBits == 4) {
    for (int i = 0; i < 4; ++i) word(i, eights[i]);
  } else {
    for (int i = 0; i < 4; ++i) {
      word(2 * i, eights[i]);
      word(2 * i + 1, eights[i] >> 32);
    }
  }
}

}  // namespace gptqb
