#include "methods/activation_hash.h"

#include <algorithm>

namespace gptqb {
namespace {

// Words that are widened to 64 bits at a time: 128 MiB.
constexpr int64_t kWordsPerChunk = int64_t{1} << 24;
// Odd numbers without pattern (fractions of the golden ratio and of the square root of 3).
constexpr auto kByPosition = static_cast<int64_t>(0x9E3779B97F4A7C15ULL);
constexpr auto kSpread = static_cast<int64_t>(0xBB67AE8584CAA73BULL);

at::ScalarType word_type(const at::Tensor& values) {
  switch (values.element_size()) {
    case 2:
      return at::kShort;
    case 4:
      return at::kInt;
    default:
      return at::kLong;
  }
}

}  // namespace

uint64_t activation_hash(const at::Tensor& part, uint64_t seed) {
  const auto flat = part.contiguous().view({-1});
  const auto words = flat.view(word_type(flat));
  uint64_t hash = seed;
  for (int64_t begin = 0; begin < words.numel(); begin += kWordsPerChunk) {
    const int64_t count = std::min(kWordsPerChunk, words.numel() - begin);
    auto mixed = at::arange(begin, begin + count, words.options().dtype(at::kLong));
    // Each word is spread over 64 bits in a way that depends on its place, then all are added.
    mixed.mul_(kByPosition).bitwise_xor_(words.narrow(0, begin, count).to(at::kLong));
    mixed.mul_(kSpread);
    mixed.bitwise_xor_(mixed.bitwise_right_shift(31));
    mixed.mul_(kByPosition);
    hash = hash * static_cast<uint64_t>(kSpread) +
           static_cast<uint64_t>(mixed.sum().item<int64_t>()) + static_cast<uint64_t>(count);
  }
  return hash;
}

}  // namespace gptqb
