#include "datasets/random_ids.h"

#include "common/random.h"

namespace gptqb {

Corpus random_ids(int64_t count, int64_t vocab_size, uint64_t seed) {
  Corpus corpus;
  corpus.label = "random";
  PythonRandom random(seed);
  corpus.tokens.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    corpus.tokens.push_back(static_cast<int32_t>(random.randint(0, vocab_size - 1)));
  return corpus;
}

}  // namespace gptqb
