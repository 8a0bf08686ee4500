// How the kernel `cuda_strips` divides its work: up to 16 rows of activations times tiles on a
// Hopper GPU, bound by how fast packed weights are read.
//
// Weights, scales and activations come in stages of `strips` strips of 32 rows by blocks of 128
// columns. Each warp of a thread block owns one strip; where there are fewer strips than warps,
// `abreast` warps share one and their sums meet in shared memory. Strips worked on at once are a
// tile of rows, and one stage of it is a unit. Units, tile by tile, are divided among thread blocks
// as ranges: whole tiles where that keeps the multiprocessors busy, else evenly, wherever that
// falls. A range that begins inside a tile of rows leaves its sums of it in the workspace, from
// where the range that began the tile adds them in order: the result depends on no timing.
#pragma once

#include <cstdint>

#include "kernels/matmul.h"

namespace gptqb::kernels {

struct StripsPlan {
  static constexpr int kMaxTokens = 16;
  static constexpr int kMaxStages = 8;
  // Bytes: stages, which begin with swizzled boxes, and other boxes lie at multiples of them.
  static constexpr int kStageAlignment = 1024;
  static constexpr int kBoxAlignment = 128;

  int eights = 1;   // activations in groups of 8: 1 or 2
  int warps = 16;   // of a thread block, that may multiply: 8 or 16; 12 if eights is 2
  int strips = 4;   // of a tile of rows
  int abreast = 1;  // warps that share a strip
  int stages = 4;   // units under way
  int64_t stage_bytes = 0;
  // Of 64 columns of activations in a stage: of 8 * eights tokens, or of a single one, which all
  // lanes then read.
  int box_bytes = 1024;
  int64_t row_tiles = 1;
  int64_t rounds = 1;     // units of a tile of rows
  int ranges = 1;         // thread blocks
  int range_units = 1;    // of each range,
  int longer_ranges = 0;  // of which the first have one more
  int64_t shared_bytes = 0;
  // Activations are first laid out as float16 in packed order: act-order, bfloat16, or columns that
  // are not a multiple of 64.
  bool prepares = false;
  // In the workspace past the flags: what each token was divided by, then
  int64_t inputs_at = 0;  // prepared activations [m][packed columns]
  int64_t sums_at = 0;    // [ranges][strips * 32 rows * 8 * eights] float32
  int64_t workspace_bytes = 0;

  bool splits() const { return longer_ranges > 0 || range_units % rounds != 0; }
  constexpr int64_t units() const { return row_tiles * rounds; }
};

// Blocks of 128 columns that a warp takes in one unit: two where one is few bytes.
constexpr int strips_depth(int64_t bits, int eights) { return bits == 2 && eights == 1 ? 2 : 1; }

// Whether each warp adds up the activations that it multiplies: cheaper than to have it done by
// others and to wait for them, unless products are what bounds it.
constexpr bool strips_add_themselves(int64_t bits, int eights) { return bits >= 4 && eights == 1; }

// Thread blocks that share a multiprocessor.
constexpr int strips_at_once(int warps) { return warps == 8 ? 2 : 1; }

// `shared_limit`: bytes of shared memory that a block may take.
StripsPlan plan_strips(const PackedShape& shape, int64_t m, HalfType type, int64_t multiprocessors,
                       int64_t shared_limit);

// For kernels/impl/matmul_strips_*_cuda.cu, one a width.
struct StripsLaunch {
  MatmulArguments arguments;
  StripsPlan plan;
};
template <int kBits>
void launch_strips(const StripsLaunch& launch, void* stream);

}  // namespace gptqb::kernels
