// A quantized matrix in canonical form, as plain pointers to host memory: what packed layouts are
// made from. methods/quantized_linear.h holds the same in tensors.
#pragma once

#include <cstdint>

namespace gptqb::kernels {

// w[o, i] = scales[o, g(i)] * (codes[o, i] - zeros[o, g(i)]), with g(i) = group_of_input[i], or
// i / group_size where group_of_input is null.
struct QuantView {
  int64_t rows = 0;     // out features
  int64_t columns = 0;  // in features
  int64_t groups = 0;
  int64_t bits = 4;                // 2, 3, 4 or 8
  int64_t group_size = -1;         // columns a group, the last may have less; -1: one group a row
  const uint8_t* codes = nullptr;  // [rows, columns], 0 .. 2^bits - 1
  const float* scales = nullptr;   // [rows, groups], each one representable in float16
  const uint8_t* zeros = nullptr;  // [rows, groups]
  const int32_t* group_of_input = nullptr;  // [columns] or null
};

}  // namespace gptqb::kernels
