// Sums wrap around, so that the order in which threads add does not matter.
#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/word_hash.h"

namespace gptqb::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kBlocksPerChunk = 1024;

template <class Word>
struct alignas(16) Loaded {
  static constexpr int kWords = 16 / static_cast<int>(sizeof(Word));
  Word word[kWords];
};

template <class Word>
__global__ void __launch_bounds__(kThreads) hash_kernel(WordHash problem) {
  using Vector = Loaded<Word>;
  const Word* const words = static_cast<const Word*>(problem.words);
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * problem.chunk;
  const int64_t end = min(begin + problem.chunk, problem.count);
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * kThreads;
  const bool aligned = reinterpret_cast<uintptr_t>(words + begin) % sizeof(Vector) == 0;
  const int64_t vectors = aligned ? (end - begin) / Vector::kWords : 0;
  uint64_t sum = 0;
  for (int64_t v = thread; v < vectors; v += threads) {
    const Vector loaded = reinterpret_cast<const Vector*>(words + begin)[v];
#pragma unroll
    for (int k = 0; k < Vector::kWords; ++k)
      sum += spread_word(loaded.word[k], begin + v * Vector::kWords + k);
  }
  for (int64_t i = begin + vectors * Vector::kWords + thread; i < end; i += threads)
    sum += spread_word(words[i], i);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffU, sum, offset);
  if (threadIdx.x % 32 == 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(problem.sums + blockIdx.y),
              static_cast<unsigned long long>(sum));
}

template <class Word>
void launch(const WordHash& problem, void* stream) {
  if (problem.count == 0) return;
  const int64_t chunks = (problem.count + problem.chunk - 1) / problem.chunk;
  const int64_t longest = std::min(problem.chunk, problem.count);
  const dim3 blocks(
      static_cast<unsigned>(std::min(kBlocksPerChunk, (longest + kThreads - 1) / kThreads)),
      static_cast<unsigned>(chunks));
  hash_kernel<Word><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(problem);
  check_cuda(cudaGetLastError(), "launch of hash_kernel");
}

}  // namespace

void hash_words_cuda(const WordHash& problem, void* stream) {
  if (problem.bytes == 2)
    launch<int16_t>(problem, stream);
  else if (problem.bytes == 4)
    launch<int32_t>(problem, stream);
  else
    launch<int64_t>(problem, stream);
}

}  // namespace gptqb::kernels
