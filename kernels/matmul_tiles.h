// How the kernel `cuda_tiles` divides its work: up to 32 rows of activations times tiles, bound by
// how fast packed weights are read, on GPUs of compute capability 8.0 and newer.
//
// A block takes strips of 32 rows in turn; its warps take the strip's blocks of 128 columns in
// turn, each with copies of its own under way, and their sums meet in shared memory. Activations
// lie in shared memory; where all columns do not fit, they come in parts, and sums of the parts
// before wait in the workspace. Nothing depends on the order in which warps run.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/matmul.h"

namespace gptqb::kernels {

struct TilesPlan {
  static constexpr int kMaxTokens = 32;
  static constexpr int kWarps = 8;  // of a block
  // Copies under way of each warp.
  static constexpr int kSlots = 2;

  int eights = 2;     // activations in groups of 8: 2 or 4
  bool fits = false;  // the device has as much shared memory
  int64_t slot_bytes = 0;
  int64_t input_sum_bytes = 0;
  int64_t part_blocks = 0;  // blocks of 128 columns whose activations are held at once
  int64_t parts = 1;
  int64_t shared_bytes = 0;
  int64_t grid = 1;
};

// Shared memory of a block beside slots and activations: the tokens' factors, and sums of
// 8 * eights tokens by strip rows of each warp.
constexpr int64_t tiles_fixed_bytes(int eights) {
  return 4 * TilesPlan::kMaxTokens + int64_t{4} * TilesPlan::kWarps * 8 * eights * (32 + 4);
}
// Unused columns between the activations of two tokens, against bank conflicts.
constexpr int64_t tiles_input_pad() { return 8; }

// `shared_limit`: bytes of shared memory that a block may take.
TilesPlan plan_tiles(const PackedShape& shape, int64_t m, int64_t multiprocessors,
                     int64_t shared_limit);

// Empty, or why shared memory does not do for `problem` (a natural order is assumed).
std::string tiles_memory_refusal(const MatmulProblem& problem, const MatmulDevice& device);

// For kernels/impl/matmul_tiles_*_cuda.cu, one a width.
struct TilesLaunch {
  MatmulArguments arguments;
  TilesPlan plan;
};
template <int kBits>
void launch_tiles(const TilesLaunch& launch, void* stream);

}  // namespace gptqb::kernels
