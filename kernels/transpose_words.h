// Four vectors of four words as a matrix: what layouts turn around while they pack and unpack.
#pragma once

#include <cstdint>

namespace gptqb::kernels {

using Words [[gnu::vector_size(16), gnu::may_alias]] = uint32_t;

// Word j of rows[i] and word i of rows[j] change places.
[[gnu::always_inline]] inline void transpose(Words* rows) {
  const Words a = __builtin_shuffle(rows[0], rows[1], Words{0, 4, 1, 5});
  const Words b = __builtin_shuffle(rows[2], rows[3], Words{0, 4, 1, 5});
  const Words c = __builtin_shuffle(rows[0], rows[1], Words{2, 6, 3, 7});
  const Words d = __builtin_shuffle(rows[2], rows[3], Words{2, 6, 3, 7});
  rows[0] = __builtin_shuffle(a, b, Words{0, 1, 4, 5});
  rows[1] = __builtin_shuffle(a, b, Words{2, 3, 6, 7});
  rows[2] = __builtin_shuffle(c, d, Words{0, 1, 4, 5});
  rows[3] = __builtin_shuffle(c, d, Words{2, 3, 6, 7});
}

}  // namespace gptqb::kernels
