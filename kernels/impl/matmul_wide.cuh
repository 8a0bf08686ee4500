// The kernel of `cuda_wide` (kernels/matmul_wide.h) for one width of codes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "kernels/by_format.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/device/hopper.cuh"
#include "kernels/device/tile_codes.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/launch_early.h"
#include "kernels/matmul_wide.h"
#include "kernels/tensor_map.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace wide {

constexpr int kRows = WidePlan::kRows;
constexpr int kStrips = kRows / static_cast<int>(kTileRows);
constexpr int kColumns = static_cast<int>(kTileColumns);
constexpr int kSteps = kColumns / 16;
constexpr int kWarpgroup = 128;
constexpr int kMultipliers = 2;  // warpgroups
constexpr int kThreads = (1 + kMultipliers) * kWarpgroup;
constexpr int kMaxStages = 8;
// Steps whose products run while the next ones' weights are made.
constexpr int kStepsAtOnce = 4;

// Blocks that a multiprocessor should hold: few activations leave registers for two.
constexpr int blocks_at_once(int tokens) { return tokens <= wide_small_tokens() ? 2 : 1; }

// What a stage holds: activations in two boxes of 64 columns, then codes, scales and zero points of
// each strip.
template <int kBits, int kTokens, int kSpan>
struct Stage {
  static constexpr int kSpans = kSpan < kColumns ? kColumns / kSpan : 1;
  static constexpr int kBoxBytes = kTokens * 128;
  static constexpr int kCodeBytes = static_cast<int>(tile_words(kBits) * 4);  // of a strip
  static constexpr int kScaleBytes = kSpans * static_cast<int>(kTileRows) * 2;
  static constexpr int kZeroBytes = kSpans * static_cast<int>(kTileRows);
  // A row of a box has at most 256 elements, of 8 bytes: codes of 8 bits come in two.
  static constexpr int kCodeBoxes = kCodeBytes > 2048 ? 2 : 1;
  static constexpr int kCodeBoxBytes = kCodeBytes / kCodeBoxes;
  static constexpr int kCodesAt = 2 * kBoxBytes;
  static constexpr int kScalesAt = kCodesAt + kStrips * kCodeBytes;
  static constexpr int kZerosAt = kScalesAt + kStrips * kScaleBytes;
};

// What the copy engine reads: activations in swizzled boxes; codes, scales and zero points as
// matrices of a row a strip.
struct Maps {
  CUtensorMap x, codes, scales, zeros;
};

#ifdef GPTQB_HOPPER

// Makes 16-bit weights of operands of codes: float16 ones by exact differences and one rounded
// product, bfloat16 ones through float32, rounded once.
template <int kBits, bool kFloat16>
class Dequantizer {
 public:
  // Of the rows g and g + 8 of a warp.
  __device__ void set(float upper_scale, float lower_scale, float upper_zero, float lower_zero) {
    scale_[0] = upper_scale;
    scale_[1] = lower_scale;
    zero_[0] = upper_zero;
    zero_[1] = lower_zero;
  }
  // `a` as TileCodes gives it for codes at bit `position`.
  __device__ void apply(uint32_t (&a)[4], int position) const {
    // 1024 + code * 2^position, a float16 whatever the code.
    const __half2 unit = __float2half2_rn(1.F / static_cast<float>(1 << position));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float zero = zero_[i % 2];
      const __half2 offset = __float2half2_rn(-(static_cast<float>(1024 >> position) + zero));
      const __half2 lifted = bits_to_half2(a[i] | 0x64006400U);
      const __half2 difference = __hfma2(lifted, unit, offset);
      if constexpr (kFloat16) {
        a[i] = bits_of(__hmul2(difference, __float2half2_rn(scale_[i % 2])));
      } else {
        const float2 wide = __half22float2(difference);
        const __nv_bfloat162 weight =
            __floats2bfloat162_rn(wide.x * scale_[i % 2], wide.y * scale_[i % 2]);
        a[i] = *reinterpret_cast<const uint32_t*>(&weight);
      }
    }
  }

 private:
  __device__ static __half2 bits_to_half2(uint32_t bits) {
    return *reinterpret_cast<const __half2*>(&bits);
  }
  __device__ static uint32_t bits_of(__half2 value) {
    return *reinterpret_cast<const uint32_t*>(&value);
  }
  float scale_[2];
  float zero_[2];
};

struct Tile {
  int row;    // first of the weight
  int token;  // first
  int split;
  int first;  // block of columns
  int end;
};

__device__ inline Tile tile_at(const WideLaunch& launch) {
  const WidePlan& plan = launch.plan;
  Tile tile;
  int index = static_cast<int>(blockIdx.x);
  tile.split = index % static_cast<int>(plan.splits);
  index /= static_cast<int>(plan.splits);
  // Tiles that run together share rows of the weight and tokens: both stay in the L2 cache.
  constexpr int kTogether = 8;  // tiles of rows
  const int tokens = static_cast<int>(plan.token_tiles);
  const int group = index / (kTogether * tokens);
  const int rows = min(kTogether, static_cast<int>(plan.row_tiles) - group * kTogether);
  const int within = index - group * kTogether * tokens;
  tile.row = (group * kTogether + within % rows) * kRows;
  tile.token = within / rows * plan.tokens;
  const int blocks = static_cast<int>(launch.arguments.weight.shape.packed_columns / kTileColumns);
  tile.first = tile.split * static_cast<int>(plan.split_blocks);
  tile.end = min(tile.first + static_cast<int>(plan.split_blocks), blocks);
  return tile;
}

template <int kBits, int kTokens, int kSpan>
__device__ void copy_stages(const Maps& maps, const WideLaunch& launch, const Tile& tile,
                            char* stages, uint64_t* full, uint64_t* empty) {
  using Place = Stage<kBits, kTokens, kSpan>;
  const bool zeros = launch.arguments.weight.zeros != nullptr;
  const auto blocks_a_span =
      max(static_cast<int>(launch.arguments.weight.shape.scale_span / kTileColumns), 1);
  const int first_strip = tile.row / static_cast<int>(kTileRows);
  // Strips beyond the last one arrive as zeros.
  const uint32_t bytes = 2 * Place::kBoxBytes + kStrips * (Place::kCodeBytes + Place::kScaleBytes +
                                                           (zeros ? Place::kZeroBytes : 0));
  int stage = 0;
  uint32_t parity = 1;
  for (int block = tile.first; block < tile.end; ++block) {
    hopper::wait(empty + stage, parity);
    char* const to = stages + stage * static_cast<int>(launch.plan.stage_bytes);
    uint64_t* const barrier = full + stage;
    hopper::arrive_expecting(barrier, bytes);
    const int span = kSpan < kColumns ? block * Place::kSpans : block / blocks_a_span;
    constexpr int kRowsOfStrip = static_cast<int>(kTileRows);
#pragma unroll
    for (int box = 0; box < Place::kCodeBoxes; ++box)
      hopper::copy_box(to + Place::kCodesAt + box * kStrips * Place::kCodeBoxBytes, maps.codes,
                       barrier, (block * Place::kCodeBoxes + box) * Place::kCodeBoxBytes / 8,
                       first_strip);
    hopper::copy_box(to + Place::kScalesAt, maps.scales, barrier, span * kRowsOfStrip, first_strip);
    if (zeros)
      hopper::copy_box(to + Place::kZerosAt, maps.zeros, barrier, span * kRowsOfStrip, first_strip);
    hopper::copy_box(to, maps.x, barrier, block * kColumns, tile.token);
    hopper::copy_box(to + Place::kBoxBytes, maps.x, barrier, block * kColumns + 64, tile.token);
    if (++stage == launch.plan.stages) {
      stage = 0;
      parity ^= 1;
    }
  }
}

template <int kBits, int kTokens, int kSpan, bool kFloat16>
__device__ void multiply_stages(float (&sums)[kTokens / 2], const WideLaunch& launch,
                                const Tile& tile, char* stages, uint64_t* full, uint64_t* empty) {
  using Place = Stage<kBits, kTokens, kSpan>;
  constexpr int kSpanSteps = (kSpan < kColumns ? kSpan : kColumns) / 16;
  const bool symmetric = launch.arguments.weight.shape.symmetric;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32 - 4;  // of both warpgroups
  const int strip = warp / 2;
  const int half = warp % 2;
  const int row = 16 * half + lane / 4;  // of the strip; and row + 8
  Dequantizer<kBits, kFloat16> dequantizer;
  int stage = 0;
  int before = 0;
  uint32_t parity = 0;
  int32_t adds = 0;
  uint32_t upper[kStepsAtOnce][4];
  uint32_t lower[kStepsAtOnce][4];
  for (int block = tile.first; block < tile.end; ++block) {
    hopper::wait(full + stage, parity);
    char* const held = stages + stage * static_cast<int>(launch.plan.stage_bytes);
    TileCodes<kBits> codes;
    // Of two boxes, one holds the rows of one warp of each strip, the other those of the other.
    constexpr int kHalfBytes = Place::kCodeBytes / 2;
    const char* const words =
        held + Place::kCodesAt +
        (Place::kCodeBoxes == 2 ? (half * kStrips + strip) * kHalfBytes
                                : strip * Place::kCodeBytes + half * kHalfBytes);
    codes.load(reinterpret_cast<const uint32_t*>(words), lane);
    const auto* scales =
        reinterpret_cast<const __half*>(held + Place::kScalesAt + strip * Place::kScaleBytes);
    const auto* zeros =
        reinterpret_cast<const uint8_t*>(held + Place::kZerosAt + strip * Place::kZeroBytes);
    const uint64_t boxes[2] = {
        hopper::describe_rows(hopper::shared_address(held)),
        hopper::describe_rows(hopper::shared_address(held + Place::kBoxBytes))};
    // Registers of a product must stand until it is done: two halves take turns.
#pragma unroll
    for (int first = 0; first < kSteps; first += kStepsAtOnce) {
      uint32_t(&operands)[kStepsAtOnce][4] = first == 0 ? upper : lower;
      hopper::wait_for_products<1>();
      // Nothing of the stage before is in work any more.
      if (first > 0 && block > tile.first && lane == 0) hopper::arrive(empty + before);
#pragma unroll
      for (int step = first; step < first + kStepsAtOnce; ++step) {
        if (step % kSpanSteps == 0) {
          const int at = step / kSpanSteps * static_cast<int>(kTileRows) + row;
          constexpr float kMiddle = 1 << (kBits - 1);
          dequantizer.set(__half2float(scales[at]), __half2float(scales[at + 8]),
                          symmetric ? kMiddle : static_cast<float>(zeros[at]),
                          symmetric ? kMiddle : static_cast<float>(zeros[at + 8]));
        }
        codes.operand(step, operands[step - first]);
        dequantizer.apply(operands[step - first],
                          TileCodes<kBits>::position(TileCodes<kBits>::position_index(step)));
      }
      hopper::begin_products();
#pragma unroll
      for (int step = first; step < first + kStepsAtOnce; ++step) {
        hopper::multiply_rows<kFloat16, kTokens>(sums, operands[step - first],
                                                 boxes[step / 4] + step % 4 * 2, adds);
        adds = 1;
      }
      hopper::commit_products();
    }
    before = stage;
    if (++stage == launch.plan.stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  hopper::wait_for_products<0>();
}

// Sums to y, or to the workspace where columns are split.
template <int kTokens, class T>
__device__ void store_sums(const float (&sums)[kTokens / 2], const WideLaunch& launch,
                           const Tile& tile) {
  const MatmulArguments& arguments = launch.arguments;
  const PackedShape& shape = arguments.weight.shape;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32 - 4;
  const int64_t first_row = tile.row + warp * 16 + lane / 4;
  float* const held = reinterpret_cast<float*>(scratch_of(arguments) + launch.plan.gathered_bytes) +
                      tile.split * arguments.m * shape.packed_rows;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t row = first_row + 8 * h;
    if (row >= shape.rows) continue;
    const float bias = arguments.bias == nullptr || launch.plan.splits > 1
                           ? 0
                           : widen(static_cast<const T*>(arguments.bias)[row]);
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j)
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int64_t token = tile.token + 8 * j + lane % 4 * 2 + k;
        if (token >= arguments.m) continue;
        const float sum = sums[4 * j + 2 * h + k];
        if (launch.plan.splits > 1)
          held[token * shape.packed_rows + row] = sum;
        else
          static_cast<T*>(arguments.y)[token * shape.rows + row] = rounded<T>(sum + bias);
      }
  }
}

#endif  // GPTQB_HOPPER

template <int kBits, int kTokens, int kSpan, bool kFloat16>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kTokens))
    matmul_wide_kernel(const __grid_constant__ Maps maps,
                       const __grid_constant__ WideLaunch launch) {
#ifdef GPTQB_HOPPER
  extern __shared__ char memory[];
  // Boxes lie at multiples of 1024 bytes; barriers behind the stages.
  char* const stages = memory + (1024 - hopper::shared_address(memory) % 1024) % 1024;
  auto* const full =
      reinterpret_cast<uint64_t*>(stages + launch.plan.stages * launch.plan.stage_bytes);
  auto* const empty = full + kMaxStages;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < launch.plan.stages; ++stage) {
      hopper::init_barrier(full + stage, 1);
      hopper::init_barrier(empty + stage, kMultipliers * kWarpgroup / 32);
    }
    hopper::publish_barriers();
  }
  __syncthreads();
  let_next_begin();
  wait_for_earlier_kernels();
  const Tile tile = tile_at(launch);
  if (threadIdx.x < kWarpgroup) {
    if constexpr (blocks_at_once(kTokens) == 1) hopper::give_registers<40>();
    if (threadIdx.x == 0)
      copy_stages<kBits, kTokens, kSpan>(maps, launch, tile, stages, full, empty);
  } else {
    if constexpr (blocks_at_once(kTokens) == 1) hopper::take_registers<232>();
    float sums[kTokens / 2];
    multiply_stages<kBits, kTokens, kSpan, kFloat16>(sums, launch, tile, stages, full, empty);
    using T = std::conditional_t<kFloat16, __half, __nv_bfloat16>;
    store_sums<kTokens, T>(sums, launch, tile);
  }
#else
  __trap();  // its launch says no
#endif
}

template <int kBits, int kTokens, int kSpan, bool kFloat16>
void launch_kernel(const WideLaunch& launch, const void* x, int64_t columns, cudaStream_t stream) {
  using Place = Stage<kBits, kTokens, kSpan>;
  const PackedView& weight = launch.arguments.weight;
  const int64_t strips = weight.shape.packed_rows / kTileRows;
  const int64_t blocks = weight.shape.packed_columns / kTileColumns;
  const int64_t spans = weight.shape.scale_spans();
  constexpr int kBoxColumns = Place::kSpans * static_cast<int>(kTileRows);
  Maps maps{};
  maps.x = swizzled_map(launch.arguments.type, x, launch.arguments.m, columns, kTokens);
  maps.codes = matrix_map(CU_TENSOR_MAP_DATA_TYPE_INT64, 8, weight.codes, strips,
                          blocks * Place::kCodeBytes / 8, kStrips, Place::kCodeBoxBytes / 8,
                          CU_TENSOR_MAP_SWIZZLE_NONE);
  maps.scales = matrix_map(CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, weight.scales, strips,
                           spans * kTileRows, kStrips, kBoxColumns, CU_TENSOR_MAP_SWIZZLE_NONE);
  if (weight.zeros != nullptr)
    maps.zeros = matrix_map(CU_TENSOR_MAP_DATA_TYPE_UINT8, 1, weight.zeros, strips,
                            spans * kTileRows, kStrips, kBoxColumns, CU_TENSOR_MAP_SWIZZLE_NONE);
  const WidePlan& plan = launch.plan;
  launch_early(matmul_wide_kernel<kBits, kTokens, kSpan, kFloat16>,
               plan.row_tiles * plan.token_tiles * plan.splits, kThreads, plan.shared_bytes,
               /*early=*/true, stream, maps, launch);
}

template <int kBits, int kTokens, bool kFloat16>
void launch_span(const WideLaunch& launch, const void* x, int64_t columns, cudaStream_t stream) {
  by_span(launch.arguments.weight.shape.scale_span, [&](auto span) {
    launch_kernel<kBits, kTokens, decltype(span)::value, kFloat16>(launch, x, columns, stream);
  });
}

template <int kBits, bool kFloat16>
void launch_tokens(const WideLaunch& launch, const void* x, int64_t columns, cudaStream_t stream) {
  switch (launch.plan.tokens) {
    case 16:
      return launch_span<kBits, 16, kFloat16>(launch, x, columns, stream);
    case 32:
      return launch_span<kBits, 32, kFloat16>(launch, x, columns, stream);
    case 64:
      return launch_span<kBits, 64, kFloat16>(launch, x, columns, stream);
    case 128:
      return launch_span<kBits, 128, kFloat16>(launch, x, columns, stream);
    default:
      return launch_span<kBits, 256, kFloat16>(launch, x, columns, stream);
  }
}

}  // namespace wide

// In matmul_wide_cuda.cu: activations in packed order, and the sum of the splits.
void gather_inputs_cuda(const WideLaunch& launch, void* stream);
void add_wide_splits_cuda(const WideLaunch& launch, void* stream);

template <int kBits>
void launch_wide(const WideLaunch& launch, void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  const PackedShape& shape = launch.arguments.weight.shape;
  const void* x = launch.arguments.x;
  int64_t columns = shape.columns;
  if (launch.plan.gathers) {
    gather_inputs_cuda(launch, stream);
    x = scratch_of(launch.arguments);
    columns = shape.packed_columns;
  }
  if (launch.arguments.type == HalfType::kFloat16)
    wide::launch_tokens<kBits, true>(launch, x, columns, queue);
  else
    wide::launch_tokens<kBits, false>(launch, x, columns, queue);
  if (launch.plan.splits > 1) add_wide_splits_cuda(launch, stream);
}

}  // namespace gptqb::kernels
