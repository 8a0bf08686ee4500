// How the kernel `cuda_wide` divides its work: many rows of activations times tiles on Hopper's
// warpgroup products.
//
// A thread block takes tiles of 128 rows of the weight by `tokens` activations, one after the
// other. Its warpgroups make float16 or bfloat16 weights of the codes in registers, (code - zero) *
// scale rounded once, while the products of the step before run. Blocks of a cluster take
// neighbouring rows at the same time, and each copies its share of the activations to all: what the
// L2 cache can deliver is the limit otherwise. Clusters take whole tiles in full rounds; the
// columns of what is left are split among them, and the splits' float32 sums are added in order: in
// shared memory where few tiles are all there is, else by a kernel of its own.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/matmul.h"

namespace gptqb::kernels {

struct WidePlan {
  static constexpr int kRows = 128;

  int tokens = 256;  // of a tile: 16, 32, 64, 128 or 256
  int stages = 3;    // blocks of 128 columns under way
  int64_t stage_bytes = 0;
  int64_t shared_bytes = 0;
  int cluster = 1;  // thread blocks that share activations
  // Of the weight, each of kRows for each block of a cluster.
  int64_t row_tiles = 1;
  int64_t token_tiles = 1;
  int64_t blocks = 1;  // of 128 columns
  // The first tiles are taken over all columns. Each further one is `splits` units, of
  // `split_blocks` blocks of columns each but perhaps the last.
  int64_t whole = 1;
  int64_t splits = 1;
  int64_t split_blocks = 1;
  // Each block has one unit, and the splits of a tile are blocks of a cluster that add up their
  // sums in each other's shared memory; `cluster` is then 1.
  bool meets = false;
  int64_t clusters = 1;  // that are launched and share the units
  // Activations are first laid out in packed order (act-order, or columns not a multiple of 8).
  bool gathers = false;
  int64_t gathered_bytes = 0;  // of the workspace, before the sums of splits
  int64_t sums_bytes =
      0;  // unless they meet: [split tiles][splits][cluster][tokens][kRows] float32

  // Thread blocks of a cluster as it is launched.
  constexpr int launched_cluster() const { return meets ? static_cast<int>(splits) : cluster; }
  constexpr int64_t tiles() const { return row_tiles * token_tiles; }
  constexpr int64_t split_tiles() const { return tiles() - whole; }
  constexpr int64_t units() const { return whole + split_tiles() * splits; }
};

struct WideTile {
  int row_tile;
  int token_tile;
};

// Tile `index` in the order of units. Tiles that run together share rows of the weight and tokens:
// both stay in the L2 cache.
GPTQB_HOST_DEVICE inline WideTile wide_tile(const WidePlan& plan, int index) {
  const int together = 8 / plan.cluster;  // tiles of rows
  const int tokens = static_cast<int>(plan.token_tiles);
  const int first = index / (together * tokens) * together;
  const int left = static_cast<int>(plan.row_tiles) - first;
  const int rows = left < together ? left : together;
  const int within = index - first * tokens;
  return {first + within % rows, within / rows};
}

// Thread blocks that share a multiprocessor: few activations leave registers for more.
constexpr int wide_at_once(int tokens) { return tokens <= 32 ? 2 : 1; }

// `shared_limit`: bytes of shared memory that a block may take; the other limits do not depend on
// it.
WidePlan plan_wide(const PackedShape& shape, int64_t m, int64_t multiprocessors,
                   int64_t shared_limit);

// What a launch uses: activations in packed order, and the sums of the splits.
int64_t wide_workspace_bytes(const PackedShape& shape, int64_t m, int64_t multiprocessors);

struct WideLaunch {
  MatmulArguments arguments;
  WidePlan plan;
  // Two float16 1024, in whose lower bits codes are numbers. Here, so that no compiler knows it:
  // TileCodes::operand.
  uint32_t lift = 0x64006400U;
};
// For kernels/impl/matmul_wide_*_cuda.cu, one a width.
template <int kBits>
void launch_wide(const WideLaunch& launch, void* stream);

}  // namespace gptqb::kernels
