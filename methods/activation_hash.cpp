#include "methods/activation_hash.h"

#include <algorithm>

#include "kernels/word_hash.h"
#include "methods/device_stream.h"

namespace gptqb {
namespace {

constexpr int64_t kWordsPerChunk = int64_t{1} << 24;

template <class Word>
void hash_on_cpu(const kernels::WordHash& problem) {
  const auto* words = static_cast<const Word*>(problem.words);
  for (int64_t i = 0; i < problem.count; ++i) {
    int64_t& sum = problem.sums[i / problem.chunk];
    sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + kernels::spread_word(words[i], i));
  }
}

void hash_words(const kernels::WordHash& problem, at::Device device) {
  if (device.is_cuda()) {
    const DeviceStream stream(device);
    kernels::hash_words_cuda(problem, stream.handle());
  } else if (problem.bytes == 2) {
    hash_on_cpu<int16_t>(problem);
  } else if (problem.bytes == 4) {
    hash_on_cpu<int32_t>(problem);
  } else {
    hash_on_cpu<int64_t>(problem);
  }
}

}  // namespace

uint64_t activation_hash(const at::Tensor& part, uint64_t seed) {
  const auto words = part.contiguous();
  const int64_t count = words.numel();
  const int64_t chunks = (count + kWordsPerChunk - 1) / kWordsPerChunk;
  auto sums = at::zeros({chunks}, words.options().dtype(at::kLong));
  hash_words({.words = words.const_data_ptr(),
              .bytes = static_cast<int64_t>(words.element_size()),
              .count = count,
              .chunk = kWordsPerChunk,
              .sums = sums.mutable_data_ptr<int64_t>()},
             words.device());
  sums = sums.cpu();
  uint64_t hash = seed;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t size = std::min(kWordsPerChunk, count - chunk * kWordsPerChunk);
    hash = hash * kernels::kSpread + static_cast<uint64_t>(sums.const_data_ptr<int64_t>()[chunk]) +
           static_cast<uint64_t>(size);
  }
  return hash;
}

}  // namespace gptqb
