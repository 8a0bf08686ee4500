// The kernel of `cuda_strips` (kernels/matmul_strips.h) for one width of codes: who of a thread
// block does what.
#pragma once

#include "kernels/by_format.h"
#include "kernels/impl/strips_products.cuh"
#include "kernels/impl/strips_stage.cuh"
#include "kernels/impl/strips_sums.cuh"
#include "kernels/launch_early.h"
#include "kernels/matmul_strips.h"
#include "kernels/tensor_map.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace strips {

// Registers of a thread that multiplies, where others add up activations.
constexpr int multiplier_registers(int warps) { return warps == 16 ? 104 : 152; }

constexpr uint32_t kAlignment = StripsPlan::kStageAlignment;

template <int kBits, int kEights, int kSpan, bool kSymmetric, int kWarps>
__global__ void __launch_bounds__(kThreads<kBits, kEights, kWarps>, strips_at_once(kWarps))
    matmul_strips_kernel(const __grid_constant__ Maps maps,
                         const __grid_constant__ StripsLaunch launch) {
#ifdef GPTQB_HOPPER
  using Sizes = Place<kBits, kEights, kSpan>;
  constexpr bool kOwn = kAddsItself<kBits, kEights>;
  extern __shared__ char memory[];
  const StripsPlan& plan = launch.plan;
  const PackedShape& shape = launch.arguments.weight.shape;
  char* const stages =
      memory + (kAlignment - hopper::shared_address(memory) % kAlignment) % kAlignment;
  auto* const sums = reinterpret_cast<float4*>(stages + plan.stages * plan.stage_bytes);
  auto* const full = reinterpret_cast<uint64_t*>(
      sums + (plan.abreast > 1 ? plan.strips * plan.abreast * 2 * kEights * 32 : 0));
  auto* const ready = full + StripsPlan::kMaxStages;
  auto* const empty = ready + StripsPlan::kMaxStages;
  auto* const input_sums = reinterpret_cast<float2*>(empty + StripsPlan::kMaxStages);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // From one lane, so that the compiler knows it alike in all: places and counts then take uniform
  // registers, and their arithmetic one instruction for a warp.
  const int warp = __shfl_sync(0xFFFFFFFFU, static_cast<int>(threadIdx.x) / 32, 0);
  const int multipliers = plan.strips * plan.abreast;
  // The next kernel in the stream may begin to copy its weights.
  let_next_begin();
  if (threadIdx.x == 32 * kWarps) {
    for (int slot = 0; slot < plan.stages; ++slot) {
      hopper::init_barrier(full + slot, 1);
      hopper::init_barrier(ready + slot, 32 * kAdders);
      hopper::init_barrier(empty + slot, multipliers);
    }
    hopper::publish_barriers();
  }
  __syncthreads();
  // Blocks start in order: one that waits for others' sums starts after them.
  const int range = plan.ranges - 1 - static_cast<int>(blockIdx.x);
  const int first = first_unit(plan, range);
  const int end = min(first_unit(plan, range + 1), static_cast<int>(plan.units()));
  if (warp >= kWarps) {
    if constexpr (!kOwn) hopper::give_registers<40>();
    if (warp > kWarps)
      add_units<kBits, kEights, kSpan>(plan, end - first, stages, input_sums, full, ready, empty,
                                       warp - kWarps - 1, lane);
    else if (lane == 0)
      copy_units<kBits, kEights, kSpan>(maps, launch, first, end, stages, full, empty);
    return;
  }
  if constexpr (!kOwn) hopper::take_registers<multiplier_registers(kWarps)>();
  if (warp >= multipliers) return;
  wait_for_earlier_kernels();

  const bool together = blocks_of_span<kSpan>(shape) == 1;
  const Stage stage = stage_of<kBits, kEights, kSpan>(plan, shape, !kSymmetric);
  constexpr int kDepth = Sizes::kDepth;
  const int strip = warp / plan.abreast;
  const int place = warp - strip * plan.abreast;
  const int blocks = plan.abreast * kDepth;  // of a stage
  const int first_block = place * kDepth;    // of this warp
  const int first_tile = strip * blocks + first_block;
  // Where this warp's part of a stage lies, and what this lane points at for activations.
  const int codes = kept(stage.codes_at + first_tile * Sizes::kCodeBytes);
  const int scales =
      kept(stage.scales_at + lane / 4 * 8 +
           (together ? first_tile * Sizes::kScaleBytes
                     : first_block * stage.next_scales + strip * Sizes::kScaleBytes));
  const int zeros = kept(stage.zeros_at + lane / 4 * 4 +
                         (together ? first_tile * Sizes::kZeroBytes
                                   : first_block * stage.next_zeros + strip * Sizes::kZeroBytes));
  const auto inputs = static_cast<uint32_t>(
      kept(static_cast<int>(lane_inputs(plan, stages, lane)) + 2 * first_block * plan.box_bytes));
  const auto box_bytes = static_cast<uint32_t>(plan.box_bytes);
  const float2* const inputs_summed =
      input_sums + first_block * (Sizes::kInputSumBytes / 8) + lane % 4;
  const auto stage_bytes = static_cast<int>(plan.stage_bytes);
  const auto rounds = static_cast<int>(plan.rounds);
  int tile = first / rounds;
  int round = first - tile * rounds;
  bool begins = round == 0;
  int slot = 0;
  int slot_at = 0;
  uint32_t parity = 0;
  float totals[2][kEights][4] = {};
  for (int unit = first; unit < end; ++unit) {
    hopper::wait(full + slot, parity);
    if constexpr (!kOwn) hopper::wait(ready + slot, parity);
#pragma unroll
    for (int d = 0; d < kDepth; ++d) {
      const char* const held = stages + slot_at;
      multiply_block<kBits, kEights, kSpan, kSymmetric>(
          totals, reinterpret_cast<const uint32_t*>(held + codes + d * Sizes::kCodeBytes),
          reinterpret_cast<const __half*>(held + scales + d * stage.next_scales),
          reinterpret_cast<const uint8_t*>(held + zeros + d * stage.next_zeros),
          inputs + slot_at + 2 * d * box_bytes, box_bytes,
          inputs_summed + (slot * blocks + d) * (Sizes::kInputSumBytes / 8), lane);
    }
    __syncwarp();
    if (lane == 0) hopper::arrive(empty + slot);
    slot_at += stage_bytes;
    if (++slot == plan.stages) {
      slot = 0;
      slot_at = 0;
      parity ^= 1;
    }
    const bool ends = ++round == rounds;
    if (!ends && unit + 1 < end) continue;

    if (plan.abreast > 1) add_abreast<kEights>(totals, sums, strip, place, plan.abreast, lane);
    if (place == 0 && !begins) {
      float4* const left = left_sums<kEights>(launch, range, strip) + lane;
#pragma unroll
      for (int i = 0; i < 2 * kEights; ++i) left[i * 32] = four(totals[i / kEights][i % kEights]);
      __syncwarp();
      if (lane == 0) raise(flag_of(launch, range, strip));
    } else if (place == 0) {
      if (!ends) add_left_sums<kEights>(totals, launch, range, (tile + 1) * rounds, strip, lane);
      const int64_t row = (static_cast<int64_t>(tile) * plan.strips + strip) * kRows;
      if (launch.arguments.type == HalfType::kFloat16)
        store_strip<kEights, __half>(totals, launch, row, lane);
      else
        store_strip<kEights, __nv_bfloat16>(totals, launch, row, lane);
    }
#pragma unroll
    for (int i = 0; i < 2 * kEights; ++i)
#pragma unroll
      for (float& total : totals[i / kEights][i % kEights]) total = 0;
    begins = true;
    round = 0;
    ++tile;
  }
#else
  __trap();  // its launch says no
#endif
}

template <int kBits, int kEights, int kSpan, int kWarps>
void launch_kernel(const StripsLaunch& launch, cudaStream_t stream) {
  using Sizes = Place<kBits, kEights, kSpan>;
  const MatmulArguments& arguments = launch.arguments;
  const PackedView& weight = arguments.weight;
  const StripsPlan& plan = launch.plan;
  const int64_t strips = weight.shape.packed_rows / kTileRows;
  const int64_t blocks = weight.shape.packed_columns / kTileColumns;
  const int64_t spans = weight.shape.scale_spans();
  const int stage_blocks = plan.abreast * Sizes::kDepth;
  const int scale_blocks = blocks_of_span<kSpan>(weight.shape) > 1 ? 1 : stage_blocks;
  constexpr int kCodeRowBytes = Sizes::kCodeBytes / Sizes::kCodeRows;
  Maps maps{};
  maps.codes = tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_INT64, weight.codes,
                             {kCodeRowBytes / 8, blocks * Sizes::kCodeRows, strips},
                             {kCodeRowBytes, blocks * Sizes::kCodeBytes},
                             {kCodeRowBytes / 8, stage_blocks * Sizes::kCodeRows, plan.strips},
                             CU_TENSOR_MAP_SWIZZLE_NONE);
  const auto rows_of_tiles = [&](const void* data, int bytes) {
    const int64_t rows = spans / Sizes::kSpans;
    return tensor_map<3>(CU_TENSOR_MAP_DATA_TYPE_INT64, data, {bytes / 8, rows, strips},
                         {bytes, rows * bytes}, {bytes / 8, scale_blocks, plan.strips},
                         CU_TENSOR_MAP_SWIZZLE_NONE);
  };
  maps.scales = rows_of_tiles(weight.scales, Sizes::kScaleBytes);
  if (weight.zeros != nullptr) maps.zeros = rows_of_tiles(weight.zeros, Sizes::kZeroBytes);
  const void* const x = plan.prepares ? scratch_of(arguments) + plan.inputs_at : arguments.x;
  const int64_t columns = plan.prepares ? weight.shape.packed_columns : weight.shape.columns;
  maps.x = tensor_map<3>(
      CU_TENSOR_MAP_DATA_TYPE_FLOAT16, x, {kBoxColumns, arguments.m, columns / kBoxColumns},
      {columns * 2, kBoxColumns * 2}, {kBoxColumns, plan.box_bytes / 128, 2 * stage_blocks},
      arguments.m == 1 ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B);
  const auto kernel = weight.zeros == nullptr
                          ? matmul_strips_kernel<kBits, kEights, kSpan, true, kWarps>
                          : matmul_strips_kernel<kBits, kEights, kSpan, false, kWarps>;
  launch_early(kernel, plan.ranges, kThreads<kBits, kEights, kWarps>, plan.shared_bytes,
               /*early=*/true, stream, maps, launch);
}

template <int kBits, int kEights, int kWarps>
void launch_span(const StripsLaunch& launch, cudaStream_t stream) {
  by_span(launch.arguments.weight.shape.scale_span, [&](auto span) {
    launch_kernel<kBits, kEights, decltype(span)::value, kWarps>(launch, stream);
  });
}

}  // namespace strips

// In matmul_strips_cuda.cu: activations as float16 in packed order.
void prepare_inputs_cuda(const StripsLaunch& launch, void* stream);

template <int kBits>
void launch_strips(const StripsLaunch& launch, void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  if (launch.plan.prepares) prepare_inputs_cuda(launch, stream);
  if (launch.plan.eights == 2) return strips::launch_span<kBits, 2, 12>(launch, queue);
  if constexpr (strips_add_themselves(kBits, 1))
    if (launch.plan.warps == 8) return strips::launch_span<kBits, 1, 8>(launch, queue);
  strips::launch_span<kBits, 1, 16>(launch, queue);
}

}  // namespace gptqb::kernels
