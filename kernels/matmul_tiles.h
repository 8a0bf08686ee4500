// How the kernel `cuda_tiles` divides its work: up to 32 rows of activations times tiles, bound by
// how fast packed weights are read.
//
// A block takes strips of 32 rows in turn; its warps take the strip's blocks of 128 columns in
// turn, each with copies of its own under way, and their sums meet in shared memory. Activations
// lie in shared memory; where all columns do not fit, they come in parts, and sums of the parts
// before wait in the workspace. Nothing depends on the order in which warps run.
#pragma once

#include <cstdint>

#include "kernels/matmul.h"

namespace gptqb::kernels {

struct TilesPlan {
  static constexpr int kWarps = 8;
  static constexpr int kMaxTokens = 32;
  // Without bulk copies (before compute capability 9.0) the number of slots is fixed.
  static constexpr int kSlotsBefore90 = 4;

  int eights = 1;  // activations in groups of 8: 1, 2 or 4
  int slots = 4;   // copies under way of each warp
  int64_t slot_bytes = 0;
  int64_t part_blocks = 0;  // blocks of 128 columns whose activations are held at once
  int64_t parts = 1;
  int64_t shared_bytes = 0;
  int64_t grid = 1;
  bool bulk = true;  // compute capability 9.0 or newer
};

// Shared memory of a block beside slots and activations: barriers, the tokens' factors, and sums of
// 8 * eights tokens by strip rows of each warp, two of them up to 16 tokens.
constexpr int64_t tiles_fixed_bytes(int eights) {
  return 8 * TilesPlan::kWarps * 16 + 4 * TilesPlan::kMaxTokens +
         int64_t{4} * (eights <= 2 ? 2 : 1) * TilesPlan::kWarps * 8 * eights * (32 + 4);
}
// Unused columns between the activations of two tokens, against bank conflicts.
constexpr int64_t tiles_input_pad() { return 8; }

// `shared_limit`: bytes of shared memory that a block may take, `capability` as in MatmulDevice.
TilesPlan plan_tiles(const PackedShape& shape, int64_t m, int64_t multiprocessors,
                     int64_t shared_limit, int64_t capability);

// For kernels/impl/matmul_tiles_*_cuda.cu, one a width.
struct TilesLaunch {
  MatmulArguments arguments;
  TilesPlan plan;
};
template <int kBits>
void launch_tiles(const TilesLaunch& launch, void* stream);

}  // namespace gptqb::kernels
