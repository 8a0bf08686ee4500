// Token ids without text, for models without meaning: what time and memory are measured on.
#pragma once

#include "datasets/dataset.h"

namespace gptqb {

// `count` ids, uniform over a vocabulary of `vocab_size`, drawn by `seed` (as Python's random), as
// a corpus of one stream.
Corpus random_ids(int64_t count, int64_t vocab_size, uint64_t seed);

}  // namespace gptqb
