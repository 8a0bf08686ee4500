// The small operations of a decoder's forward pass on a GPU, each in one pass over its tensors,
// where separate tensor operations take several.
//
// All round where the tensor operations they stand for round, so that results are the same bits
// (but for the order of the causal softmax's sums). Values are float16 or bfloat16, computed in
// float32; matrices are contiguous; raw pointers to memory of the current device; work is queued on
// `stream` (a cudaStream_t). Throw Error if a launch fails, or in a build without CUDA.
#pragma once

#include <cstdint>

#include "kernels/half_type.h"

namespace gptqb::kernels {

// Values that a thread reads at a time: sizes below that say so are multiples of it.
inline constexpr int64_t kHalfVector = 8;

// RMS norm of rows (Zhang and Sennrich 2019): out = round(round(x / rms) * scale), where rms =
// sqrt(mean(x^2) + epsilon). Squares are summed in the order of ATen's mean over the last of two
// dimensions, from which the sizes below follow.
struct RmsNorm {
  static constexpr int64_t kMinRows = 16;
  static constexpr int64_t kMinColumns = 128;

  HalfType type = HalfType::kFloat16;
  int64_t rows = 0;     // at least kMinRows
  int64_t columns = 0;  // a multiple of kHalfVector, at least kMinColumns
  float epsilon = 0;
  const void* x = nullptr;      // [rows, columns]
  const void* scale = nullptr;  // [columns]
  void* out = nullptr;          // [rows, columns]
};
void rms_norm_cuda(const RmsNorm& problem, void* stream);

// Rotary positions (Su et al. 2021) with halves, not neighbours, as pairs: of each vector x = (low,
// high), out = (low cos - high sin, high cos + low sin), every product rounded by itself.
struct Rotate {
  HalfType type = HalfType::kFloat16;
  int64_t tokens = 0;  // sequences * seqlen
  int64_t seqlen = 0;  // token t is at position t % seqlen
  int64_t heads = 0;
  int64_t half = 0;               // half of a vector, a multiple of kHalfVector
  const void* x = nullptr;        // [tokens, heads, 2 * half]
  const void* cosines = nullptr;  // [seqlen, half]
  const void* sines = nullptr;    // [seqlen, half]
  void* out = nullptr;            // [tokens, heads, 2 * half]
};
void rotate_cuda(const Rotate& problem, void* stream);

// out = round(round(silu(gate)) * up), SwiGLU's middle (Shazeer 2020). Launched early (kernels/
// decode.h).
struct SiluMultiply {
  HalfType type = HalfType::kFloat16;
  int64_t rows = 0;
  int64_t columns = 0;  // a multiple of kHalfVector
  int64_t stride = 0;   // of rows of gate and up, in values: a multiple of kHalfVector
  const void* gate = nullptr;
  const void* up = nullptr;
  void* out =
      nullptr;  // [rows, columns], rows one after the other; may be gate if stride is columns
};
void silu_multiply_cuda(const SiluMultiply& problem, void* stream);

// BLOOM's GELU: x (1 + tanh(0.79788456 x (1 + 0.044715 x x))) / 2, each operation rounded by
// itself.
struct BloomGelu {
  HalfType type = HalfType::kFloat16;
  int64_t count = 0;  // a multiple of kHalfVector
  void* x = nullptr;  // in and out [count]
};
void bloom_gelu_cuda(const BloomGelu& problem, void* stream);

// Causal attention's softmax: of row r the scores of columns 0 .. first + r, in float32 and rounded
// once, and 0 beyond. A row that sees NaN, +infinity or nothing but -infinity becomes NaN, all of
// it.
struct CausalSoftmax {
  static constexpr int64_t kMaxColumns = 8192;

  HalfType type = HalfType::kFloat16;
  int64_t matrices = 0;  // matrices * rows < 2^31
  int64_t rows = 0;
  int64_t columns = 0;  // at most kMaxColumns
  int64_t first = 0;
  void* scores = nullptr;  // in and out [matrices, rows, columns]
};
void causal_softmax_cuda(const CausalSoftmax& problem, void* stream);

}  // namespace gptqb::kernels
