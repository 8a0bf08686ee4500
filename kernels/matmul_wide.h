// How the kernel `cuda_wide` divides its work: many rows of activations times tiles on Hopper's
// warpgroup products.
//
// A block takes 128 rows of the weight by `tokens` activations over a range of columns. Its
// warpgroups make float16 or bfloat16 weights of the codes in registers, (code - zero) * scale
// rounded once, while the products of the step before run. Where there are fewer such tiles than
// multiprocessors, columns are split among blocks, and the splits' float32 sums are added in order.
#pragma once

#include <cstdint>

#include "common/round_up.h"
#include "kernels/matmul.h"

namespace gptqb::kernels {

struct WidePlan {
  static constexpr int kRows = 128;

  int tokens = 256;  // of a tile: 16, 32, 64, 128 or 256
  int stages = 3;    // blocks of 128 columns under way
  int64_t stage_bytes = 0;
  int64_t row_tiles = 1;
  int64_t token_tiles = 1;
  int64_t splits = 1;
  int64_t split_blocks = 1;  // blocks of 128 columns of each
  int64_t shared_bytes = 0;
  // Activations are first laid out in packed order (act-order, or columns not a multiple of 8).
  bool gathers = false;
  int64_t gathered_bytes = 0;  // of the workspace, before the sums of splits
};

// Up to so many tokens a tile, two blocks share a multiprocessor.
constexpr int wide_small_tokens() { return 32; }

// Splits of columns that are considered: enough for two rounds of all workers.
constexpr int64_t wide_most_splits(int64_t tiles, int64_t workers) {
  const int64_t most = divide_up(2 * workers, tiles);
  return most < 1 ? 1 : most > 16 ? 16 : most;
}

WidePlan plan_wide(const PackedShape& shape, int64_t m, int64_t multiprocessors,
                   int64_t shared_limit);

// What a launch uses: activations in packed order, and the sums of the splits.
int64_t wide_workspace_bytes(const PackedShape& shape, int64_t m, int64_t multiprocessors);

struct WideLaunch {
  MatmulArguments arguments;
  WidePlan plan;
};
// For kernels/impl/matmul_wide_*_cuda.cu, one a width.
template <int kBits>
void launch_wide(const WideLaunch& launch, void* stream);

}  // namespace gptqb::kernels
