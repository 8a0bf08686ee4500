// The inner sums of methods/activation_hash.h: one number for millions of words, made in one pass
// over them. Raw pointers only.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace gptqb::kernels {

// Words are hashed in chunks that each have a sum, so that places count from the start of `words`.
struct WordHash {
  const void* words = nullptr;  // [count], aligned to their size
  int64_t bytes = 2;            // of a word, which is a signed number: 2, 4 or 8
  int64_t count = 0;
  int64_t chunk = 0;        // words a chunk, the last one may have fewer
  int64_t* sums = nullptr;  // in and out [chunks], wrapping around
};

// What word `place` adds to its chunk's sum: it is spread over 64 bits in a way that depends on
// where it lies. Odd numbers without pattern: fractions of the golden ratio and of the square root
// of 3.
inline constexpr uint64_t kByPosition = 0x9E3779B97F4A7C15ULL;
inline constexpr uint64_t kSpread = 0xBB67AE8584CAA73BULL;
GPTQB_HOST_DEVICE inline uint64_t spread_word(int64_t word, int64_t place) {
  uint64_t mixed = static_cast<uint64_t>(place) * kByPosition ^ static_cast<uint64_t>(word);
  mixed *= kSpread;
  mixed ^= static_cast<uint64_t>(static_cast<int64_t>(mixed) >> 31);
  return mixed * kByPosition;
}

// Queued on `stream` (a cudaStream_t). All pointers are memory of the current device. Throws Error
// if the launch fails, or in a build without CUDA.
void hash_words_cuda(const WordHash& problem, void* stream);

}  // namespace gptqb::kernels
