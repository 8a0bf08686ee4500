#include <array>
#include <cstddef>

#include "kernels/read_bandwidth.h"

namespace gptqb::kernels {

uint32_t fold_words_cpu(const void* data, int64_t bytes) {
  // Wide enough that the loads of a line need no result of the line before.
  constexpr int64_t kWords = 64;
  const auto* words = static_cast<const uint32_t*>(data);
  const int64_t count = bytes / static_cast<int64_t>(sizeof(uint32_t));
  std::array<uint32_t, kWords> folded{};
  int64_t i = 0;
  for (; i + kWords <= count; i += kWords)
    for (int64_t w = 0; w < kWords; ++w) folded[static_cast<size_t>(w)] ^= words[i + w];
  uint32_t result = 0;
  for (; i < count; ++i) result ^= words[i];
  for (const uint32_t word : folded) result ^= word;
  return result;
}

}  // namespace gptqb::kernels
