// Products of `cuda_strips` (kernels/matmul_strips.h).
//
// Tensor cores take the codes as they lie (kernels/device/tile_codes.cuh): subnormal float16
// numbers, exact products, float32 sums. With z the zero point and sums over the columns of a span,
//
//   y += scale * (sum of code * x - z * sum of x)
//
// where the sum of x is one more product of each warp, or the work of three others, once for all
// rows. So a weight costs a mask and its share of a product, and no width needs a conversion.
#pragma once

#include <cuda_fp16.h>

#include "kernels/device/tile_codes.cuh"
#include "kernels/impl/strips_stage.cuh"

#ifdef GPTQB_HOPPER
namespace gptqb::kernels::strips {

constexpr int kSteps = kColumns / 16;

// A value that the compiler is not to compute again.
__device__ inline int kept(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

constexpr float kUnit = 1.F / (1 << 24);  // of a code at position 0

// Of a lane's four rows.
struct Grids {
  float scale[4];
  float zero[4];  // if they are stored
};

template <bool kSymmetric>
__device__ inline Grids load_grids(const __half* scales, const uint8_t* zeros) {
  Grids grids;
  const uint2 four = *reinterpret_cast<const uint2*>(scales);
  const float2 upper = __half22float2(*reinterpret_cast<const __half2*>(&four.x));
  const float2 lower = __half22float2(*reinterpret_cast<const __half2*>(&four.y));
  grids.scale[0] = upper.x;
  grids.scale[1] = upper.y;
  grids.scale[2] = lower.x;
  grids.scale[3] = lower.y;
  if constexpr (!kSymmetric) {
    const uint32_t bytes = *reinterpret_cast<const uint32_t*>(zeros);
#pragma unroll
    for (int i = 0; i < 4; ++i) grids.zero[i] = static_cast<float>(bytes >> 8 * i & 0xFF);
  }
  return grids;
}

// One strip by one block: 32 rows by 128 columns by 8 * kEights tokens. `totals` are in units of
// 2^-24. `scales` and `zeros` of this lane's four rows; `inputs`: what it points at for
// activations, the second box `box_bytes` further; `input_sums` of its first two tokens.
template <int kBits, int kEights, int kSpan, bool kSymmetric>
__device__ inline void multiply_block(float (&totals)[2][kEights][4], const uint32_t* block,
                                      const __half* scales, const uint8_t* zeros, uint32_t inputs,
                                      uint32_t box_bytes, const float2* input_sums, int lane) {
  using Codes = TileCodes<kBits>;
  using Sizes = Place<kBits, kEights, kSpan>;
  constexpr int kPositions = Codes::kPositions;
  constexpr int kSpanSteps = (kSpan < kColumns ? kSpan : kColumns) / 16;
  Codes codes[2];
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) codes[tile].load(block + tile * 32 * Codes::kWords, lane);

  float sums[kPositions][2][kEights][4] = {};
  constexpr bool kOwn = kAddsItself<kBits, kEights>;
  // Of activations: two, so that no chain of products is longer than those of the codes.
  float own_sums[2][kEights][4] = {};
  float2 of_inputs[kEights];
  uint32_t b[kEights][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int span = step / kSpanSteps;
    if (step % 2 == 0)
#pragma unroll
      for (int e = 0; e < kEights; ++e)
        load_matrices(b[e], (inputs ^ (step / 2 % 2 * 64)) + step / 4 * box_bytes + e * 8 * 128);
    if (!kOwn && step % kSpanSteps == 0)
#pragma unroll
      for (int e = 0; e < kEights; ++e) {
        of_inputs[e] = input_sums[(span * kEights + e) * 4];
        if constexpr (!kSymmetric) continue;
        // All rows have the same zero point: sums begin with what it takes off.
        const int first = Codes::position_index(step);
        const float factor = -kUnit * static_cast<float>(1 << (kBits - 1 + Codes::position(first)));
#pragma unroll
        for (int tile = 0; tile < 2; ++tile)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            sums[first][tile][e][i] = factor * (i % 2 == 0 ? of_inputs[e].x : of_inputs[e].y);
      }
    const int b0 = step % 2 * 2;
    if (kOwn)
#pragma unroll
      for (int e = 0; e < kEights; ++e) add_columns(own_sums[step % 2][e], b[e][b0], b[e][b0 + 1]);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
      uint32_t a[4];
      codes[tile].operand(step, a);
#pragma unroll
      for (int e = 0; e < kEights; ++e)
        multiply_add(sums[Codes::position_index(step)][tile][e], a, b[e][b0], b[e][b0 + 1]);
    }

    if ((step + 1) % kSpanSteps != 0) continue;
    // The span ends: its sums take their scale.
    if (kOwn)
#pragma unroll
      for (int e = 0; e < kEights; ++e) {
        float(&even)[4] = own_sums[0][e];
        float(&odd)[4] = own_sums[1][e];
        of_inputs[e] = {even[0] + odd[0], even[1] + odd[1]};
#pragma unroll
        for (int i = 0; i < 4; ++i) even[i] = odd[i] = 0;
      }
    const Grids grids = load_grids<kSymmetric>(scales + span * kRows, zeros + span * kRows);
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const float scale = grids.scale[2 * tile + lower];
        float offset = -kUnit * (1 << (kBits - 1));
        if constexpr (!kSymmetric) offset = -kUnit * grids.zero[2 * tile + lower];
#pragma unroll
        for (int e = 0; e < kEights; ++e)
#pragma unroll
          for (int token = 0; token < 2; ++token) {
            const int i = 2 * lower + token;
            // Sums of the positions, the first of which needs no factor.
            float sum = sums[0][tile][e][i];
            sums[0][tile][e][i] = 0;
#pragma unroll
            for (int p = 1; p < kPositions; ++p) {
              float& part = sums[p][tile][e][i];
              sum = __fmaf_rn(part, 1.F / static_cast<float>(1 << Codes::position(p)), sum);
              part = 0;
            }
            if (kOwn || !kSymmetric)
              sum = __fmaf_rn(offset, token == 0 ? of_inputs[e].x : of_inputs[e].y, sum);
            totals[tile][e][i] = __fmaf_rn(scale, sum, totals[tile][e][i]);
          }
      }
  }
}

// Sums of the activations of each span of a block, which tensor cores take as products with ones.
template <int kBits, int kEights, int kSpan>
__device__ inline void add_inputs(float2* sums, uint32_t inputs, uint32_t box_bytes, int lane) {
  constexpr int kSpanSteps = (kSpan < kColumns ? kSpan : kColumns) / 16;
#pragma unroll
  for (int e = 0; e < kEights; ++e) {
    float parts[2][4] = {};
    uint32_t b[4];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (step % 2 == 0)
        load_matrices(b, (inputs ^ (step / 2 % 2 * 64)) + step / 4 * box_bytes + e * 8 * 128);
      add_columns(parts[step % 2], b[step % 2 * 2], b[step % 2 * 2 + 1]);
      if ((step + 1) % kSpanSteps != 0) continue;
      if (lane < 4)
        sums[(step / kSpanSteps * kEights + e) * 4 + lane] = {parts[0][0] + parts[1][0],
                                                              parts[0][1] + parts[1][1]};
#pragma unroll
      for (int i = 0; i < 4; ++i) parts[0][i] = parts[1][i] = 0;
    }
  }
}

// What a lane points at for the activations of a stage's first block: one of eight tokens,
// swizzled, or the only one.
__device__ inline uint32_t lane_inputs(const StripsPlan& plan, const char* stages, int lane) {
  const int token = plan.box_bytes == 128 ? 0 : lane % 8;
  return hopper::shared_address(stages) + token * 128 + (lane / 8 ^ token) * 16;
}

// Of one of the warps that add up activations: it takes every third block.
template <int kBits, int kEights, int kSpan>
__device__ void add_units(const StripsPlan& plan, int units, char* stages, float2* input_sums,
                          uint64_t* full, uint64_t* ready, uint64_t* empty, int adder, int lane) {
  using Sizes = Place<kBits, kEights, kSpan>;
  const int blocks = plan.abreast * Sizes::kDepth;
  const uint32_t inputs = lane_inputs(plan, stages, lane);
  int slot = 0;
  uint32_t parity = 0;
  int turn = adder;  // the next block of this warp, counted from the unit's first
  for (int unit = 0; unit < units; ++unit) {
    hopper::wait(full + slot, parity);
    // Over before these copies began; so that the sums' readers are seen to be done.
    hopper::wait(empty + slot, parity ^ 1);
    for (; turn < blocks; turn += kAdders)
      add_inputs<kBits, kEights, kSpan>(
          input_sums + (slot * blocks + turn) * (Sizes::kInputSumBytes / 8),
          inputs + static_cast<uint32_t>(slot * plan.stage_bytes + 2 * turn * plan.box_bytes),
          static_cast<uint32_t>(plan.box_bytes), lane);
    turn -= blocks;
    hopper::arrive(ready + slot);
    if (++slot == plan.stages) {
      slot = 0;
      parity ^= 1;
    }
  }
}

}  // namespace gptqb::kernels::strips
#endif  // GPTQB_HOPPER
