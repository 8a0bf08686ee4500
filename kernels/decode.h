// The small operations of a step that writes one token of each sequence on a GPU.
//
// Such a step is a chain of hundreds of kernels of a few microseconds, so each of these does what
// lies between two products of weights, and is launched early: the product behind it may read its
// weights meanwhile. They round where the tensor operations they stand for round, but for the order
// of sums. Values are float16 or bfloat16, computed in float32; raw pointers to memory of the
// current device at multiples of 16 bytes; work is queued on `stream` (a cudaStream_t). Throw Error
// if a launch fails, or in a build without CUDA.
#pragma once

#include <cstdint>

#include "kernels/half_type.h"

namespace gptqb::kernels {

// What adds to the residual and the norm behind it: residual = round(residual + delta), then a row
// at a time
//   RMS norm:   out = round(round(x / sqrt(mean(x^2) + epsilon)) scale)
//   layer norm: out = round((x - mean) / sqrt(variance + epsilon) scale + shift)
struct AddNorm {
  static constexpr int64_t kMaxColumns = 16384;

  HalfType type = HalfType::kFloat16;
  int64_t rows = 0;
  int64_t columns = 0;  // a multiple of kHalfVector (kernels/forward.h), at most kMaxColumns
  float epsilon = 0;
  bool rms = true;
  void* residual = nullptr;     // in and out [rows, columns]
  const void* delta = nullptr;  // [rows, columns]; null: nothing is added
  const void* scale = nullptr;  // [columns]; a layer norm may have none
  const void* shift = nullptr;  // [columns]; a layer norm with a scale only
  void* out = nullptr;          // [rows, columns]
};
void add_norm_cuda(const AddNorm& problem, void* stream);

// x = max(x, 0), NaN where x is NaN.
struct Relu {
  HalfType type = HalfType::kFloat16;
  int64_t count = 0;  // a multiple of kHalfVector
  void* x = nullptr;  // in and out [count]
};
void relu_cuda(const Relu& problem, void* stream);

// For each row the first place of its largest value, of NaN if there is one.
struct LargestPlace {
  HalfType type = HalfType::kFloat16;
  int64_t rows = 0;
  int64_t columns = 0;
  const void* x = nullptr;  // [rows, columns]
  int64_t* out = nullptr;   // [rows]
};
void largest_place_cuda(const LargestPlace& problem, void* stream);

// Attention of one new token of each sequence to itself and to those before it in a cache, which
// takes its keys and values too. With p the new token's position, the same for all sequences:
//   q = round(query_scale rotated(queries)), k = rotated(keys), rotated as in Rotate
//   scores_j = score_scale q . k_j + slope j for j = 0 .. p
//   out = round(softmax(scores) . values)
// Scores, softmax and sums are float32 throughout.
//
// Long texts are shared out to several thread blocks, whose sums are added in order, so the same
// inputs give the same bits. Position, cosines, sines and the cache are read while earlier kernels
// of the stream still run: the last one before this must not have written them.
struct DecodeAttention {
  static constexpr int64_t kMaxHeadDim = 256;
  static constexpr int64_t kMaxSplits = 16;

  HalfType type = HalfType::kFloat16;
  int64_t batch = 0;
  int64_t heads = 0;     // of queries: a multiple of kv_heads
  int64_t kv_heads = 0;  // of keys and values
  int64_t head_dim = 0;  // a multiple of kHalfVector, of twice that if rotated; up to kMaxHeadDim
  // [batch, heads or kv_heads, head_dim]; sequences lie the first, heads the second number of
  // values apart (multiples of kHalfVector).
  const void* queries = nullptr;
  const void* keys = nullptr;
  const void* values = nullptr;
  int64_t query_strides[2] = {0, 0};
  int64_t key_strides[2] = {0, 0};
  int64_t value_strides[2] = {0, 0};
  const int64_t* position = nullptr;  // p, on the device
  int64_t reach = 0;                  // more than p
  const void* cosines = nullptr;      // [head_dim / 2] of position p; null: nothing is rotated
  const void* sines = nullptr;
  const float* slopes = nullptr;  // [heads]; null: none
  float query_scale = 1;
  float score_scale = 1;
  void* cached_keys = nullptr;  // [batch, kv_heads, positions, head_dim], contiguous
  void* cached_values = nullptr;
  int64_t positions = 0;
  // decode_attention_workspace() bytes, of one launch at a time; zero at first, and what must be
  // zero is again afterwards.
  void* workspace = nullptr;
  void* out = nullptr;  // [batch, heads, head_dim]
};
void decode_attention_cuda(const DecodeAttention& problem, void* stream);

// Bytes for any reach.
int64_t decode_attention_workspace(int64_t batch, int64_t heads, int64_t head_dim);

}  // namespace gptqb::kernels
