// The kernel of `cuda_tiles` (kernels/matmul_tiles.h) for one width of codes.
//
// Tensor cores take the codes as they lie (kernels/device/tile_codes.cuh): subnormal float16
// numbers, exact products, float32 sums. With z the zero point and sums over the columns of a span,
//
//   y += scale * (sum of code * x - z * sum of x)
//
// where the sum of x is the same for all rows and taken once. So a weight costs a mask and its
// share of a product, and no width needs a conversion.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/by_format.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/device/tile_codes.cuh"
#include "kernels/launch_early.h"
#include "kernels/matmul_tiles.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace tiles {

constexpr int kWarps = TilesPlan::kWarps;
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = static_cast<int>(kTileRows);
constexpr int kColumns = static_cast<int>(kTileColumns);
constexpr int kSteps = kColumns / 16;
constexpr int kSumPitch = kRows + 4;  // 8 rows by 4 pairs of tokens fall into different banks
constexpr int kInputPad = tiles_input_pad();  // 8 tokens' 16 bytes fall into different banks
constexpr int kSlots = TilesPlan::kSlots;

// Shared memory, in this order.
struct Shared {
  float* factors;     // [kMaxTokens]: what the activations of a token were divided by
  float* sums;        // [kWarps][8 * eights tokens][kSumPitch]
  char* slots;        // [slots][slot_bytes]
  float* input_sums;  // [spans of the part][8 * eights tokens]
  __half* inputs;     // [m][part columns + kInputPad]
};
constexpr int64_t kFactorBytes = int64_t{4} * TilesPlan::kMaxTokens;
__host__ __device__ constexpr int64_t sum_bytes(int eights) {
  return int64_t{4} * kWarps * 8 * eights * kSumPitch;
}
static_assert(kFactorBytes + sum_bytes(2) == tiles_fixed_bytes(2) &&
              kFactorBytes + sum_bytes(4) == tiles_fixed_bytes(4));

// What a slot holds of a strip: codes of a block in a row for each warp, then their scales, then
// their zero points.
template <int kBits, int kEights, int kSpan>
struct Slot {
  static constexpr int kSpans = kSpan < kColumns ? kColumns / kSpan : 1;      // of a block, or less
  static constexpr int kCodeBytes = static_cast<int>(tile_words(kBits) * 4);  // of a block
  static constexpr int kScaleBytes = kSpans * kRows * 2;
  static constexpr int kZeroBytes = kSpans * kRows;
  static constexpr int kScalesAt = kWarps * kCodeBytes;
  static constexpr int kZerosAt = kScalesAt + kWarps * kScaleBytes;
};

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

// The order of work: by part, strip, and as many blocks at once as there are warps. Blocks go round
// the warps, so that none has more to do than others.
struct Walk {
  int strips, step, first_strip;  // of the matrix, between two and the first of a thread block's
  int blocks, part_blocks;
  int part = 0, strip = 0, first = 0, end = 0;
  int taken = 0;  // blocks before these

  __device__ void begin() {
    strip = first_strip;
    enter();
  }
  __device__ bool done() const { return part * part_blocks >= blocks; }
  __device__ int count() const { return min(kWarps, end - first); }
  // Which of the blocks is a warp's; none if it is not below count().
  __device__ int turn(int warp) const { return (warp - taken) & (kWarps - 1); }
  // False where a strip ends.
  __device__ bool next() {
    taken += count();
    first += kWarps;
    if (first < end) return true;
    strip += step;
    if (strip >= strips) {
      strip = first_strip;
      ++part;
    }
    enter();
    return false;
  }

 private:
  __device__ void enter() {
    first = part * part_blocks;
    end = min(first + part_blocks, blocks);
  }
};

__device__ inline void copy_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}

// Where the parts of a block lie.
template <class Place, int kSpan>
struct Source {
  const char* codes;
  const char* scales;
  const char* zeros;  // null if symmetric

  __device__ Source(const PackedView& weight, const Walk& walk, int block) {
    const auto blocks_a_span = static_cast<int>(weight.shape.scale_span / kTileColumns);
    const int64_t at = static_cast<int64_t>(walk.strip) * walk.blocks + block;
    const int64_t row = kSpan < kColumns || blocks_a_span == 1
                            ? at
                            : walk.strip * weight.shape.scale_spans() + block / blocks_a_span;
    codes = reinterpret_cast<const char*>(weight.codes) + at * Place::kCodeBytes;
    scales = reinterpret_cast<const char*>(weight.scales) + row * Place::kScaleBytes;
    zeros = weight.zeros == nullptr
                ? nullptr
                : reinterpret_cast<const char*>(weight.zeros) + row * Place::kZeroBytes;
  }
};

// Activations of a part's columns as float16; what stands beyond the matrix is zero. bfloat16 ones
// are divided by a power of two for each token.
template <int kEights>
__device__ void load_inputs(const TilesLaunch& launch, const Shared& shared, int64_t first,
                            int64_t columns) {
  const MatmulArguments& arguments = launch.arguments;
  const PackedShape& shape = arguments.weight.shape;
  const int32_t* const order = arguments.weight.input_order;
  const int m = static_cast<int>(arguments.m);
  const int64_t pitch = columns + kInputPad;
  const auto thread = static_cast<int>(threadIdx.x);
  const bool half = arguments.type == HalfType::kFloat16;
  if (half && order == nullptr && shape.columns % kVector == 0) {
    const int64_t vectors = columns / kVector;
    const int64_t held = min(vectors, (shape.columns - first) / kVector);
    for (int token = 0; token < m; ++token) {
      const auto* from =
          static_cast<const uint4*>(arguments.x) + (token * shape.columns + first) / kVector;
      auto* to = reinterpret_cast<uint4*>(shared.inputs + token * pitch);
#pragma unroll 4
      for (int64_t i = thread; i < vectors; i += kThreads)
        to[i] = i < held ? from[i] : uint4{0, 0, 0, 0};
    }
    return;
  }
  const auto input = [&](int64_t column) {
    const int64_t at = order == nullptr ? first + column : order[first + column];
    return at < shape.columns ? at : int64_t{-1};
  };
  if (half) {
    const auto* x = static_cast<const __half*>(arguments.x);
    for (int64_t column = thread; column < columns; column += kThreads) {
      const int64_t at = input(column);
      for (int token = 0; token < m; ++token)
        shared.inputs[token * pitch + column] = at < 0 ? __half(0) : x[token * shape.columns + at];
    }
    return;
  }
  const auto* x = static_cast<const __nv_bfloat16*>(arguments.x);
  const int lane = thread % 32;
  for (int token = thread / 32; token < m; token += kWarps) {
    int largest = 0;
    for (int64_t column = lane; column < columns; column += 32) {
      const int64_t at = input(column);
      if (at >= 0)
        largest = max(largest, __bfloat16_as_ushort(x[token * shape.columns + at]) & 0x7FFF);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
      largest = max(largest, __shfl_xor_sync(0xFFFFFFFFU, largest, offset));
    const int exponent = exponent_below(largest);
    for (int64_t column = lane; column < columns; column += 32) {
      const int64_t at = input(column);
      shared.inputs[token * pitch + column] =
          at < 0 ? __half(0)
                 : __float2half_rn(scalbnf(widen(x[token * shape.columns + at]), -exponent));
    }
    if (lane == 0) shared.factors[token] = scalbnf(1.F, exponent);
  }
}

// Sums of the activations of each span, which tensor cores take as products with ones.
template <int kEights, int kSpan>
__device__ void sum_inputs(const Shared& shared, const uint32_t (&inputs)[kEights], int part_blocks,
                           int warp, int lane) {
  constexpr int kSpanSteps = (kSpan < kColumns ? kSpan : kColumns) / 16;
  constexpr int kSpans = kSteps / kSpanSteps;
  for (int block = warp; block < part_blocks; block += kWarps)
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
      float sums[4] = {};
      uint32_t b[4];
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (step % 2 == 0) load_matrices(b, inputs[e] + block * kColumns * 2 + step * 32);
        add_columns(sums, b[step % 2 * 2], b[step % 2 * 2 + 1]);
        if ((step + 1) % kSpanSteps != 0) continue;
        const int span = block * kSpans + step / kSpanSteps;
        if (lane < 4)
          reinterpret_cast<float2*>(shared.input_sums)[(span * kEights + e) * 4 + lane] =
              float2{sums[0], sums[1]};
        sums[0] = sums[1] = sums[2] = sums[3] = 0;
      }
    }
}

// One strip by one block: 32 rows by 128 columns by 8 * kEights tokens. `codes`, `scales`, `zeros`
// of the block; `input_sums` of its spans.
template <int kBits, int kEights, int kSpan>
__device__ inline void multiply_block(float (&totals)[2][kEights][4], const uint32_t* block,
                                      const __half* scales, const uint8_t* zeros, bool symmetric,
                                      const float2* input_sums, const uint32_t (&inputs)[kEights],
                                      uint32_t column_bytes, int lane) {
  using Codes = TileCodes<kBits>;
  constexpr int kPositions = Codes::kPositions;
  constexpr int kSpanSteps = (kSpan < kColumns ? kSpan : kColumns) / 16;
  Codes codes[2];
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) codes[tile].load(block + tile * 32 * Codes::kWords, lane);

  float sums[kPositions][2][kEights][4] = {};
  uint32_t b[kEights][4];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    if (step % 2 == 0)
#pragma unroll
      for (int e = 0; e < kEights; ++e) load_matrices(b[e], inputs[e] + column_bytes + step * 32);
    const int b0 = step % 2 * 2;
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
    const int span = step / kSpanSteps;
    float2 of_inputs[kEights];
#pragma unroll
    for (int e = 0; e < kEights; ++e)
      of_inputs[e] = input_sums[(span * kEights + e) * 4 + lane % 4];
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int place = static_cast<int>(tile_scale_place(16 * tile + 8 * lower + lane / 4));
        const float scale = __half2float(scales[span * kRows + place]);
        const float zero = symmetric ? static_cast<float>(1 << (kBits - 1))
                                     : static_cast<float>(zeros[span * kRows + place]);
        const float offset = -scale * zero;
#pragma unroll
        for (int e = 0; e < kEights; ++e)
#pragma unroll
          for (int token = 0; token < 2; ++token) {
            const int at = 2 * lower + token;
            float& total = totals[tile][e][at];
            total = __fmaf_rn(offset, token == 0 ? of_inputs[e].x : of_inputs[e].y, total);
#pragma unroll
            for (int i = 0; i < kPositions; ++i) {
              if (!Codes::uses(i, step + 1 - kSpanSteps, step)) continue;
              float& sum = sums[i][tile][e][at];
              total =
                  __fmaf_rn(scale * static_cast<float>(1 << (24 - Codes::position(i))), sum, total);
              sum = 0;
            }
          }
      }
  }
}

// Adds up what the warps found for a strip; the last part writes y.
template <int kEights>
__device__ void finish_strip(const TilesLaunch& launch, const Shared& shared, int64_t strip,
                             int64_t part) {
  const MatmulArguments& arguments = launch.arguments;
  const PackedShape& shape = arguments.weight.shape;
  for (int output = static_cast<int>(threadIdx.x); output < kRows * arguments.m;
       output += kThreads) {
    const int token = output / kRows;
    const int64_t row = strip * kRows + output % kRows;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp)
      sum += shared.sums[(warp * 8 * kEights + token) * kSumPitch + output % kRows];
    if (arguments.type == HalfType::kBFloat16) sum *= shared.factors[token];
    float* const held =
        reinterpret_cast<float*>(scratch_of(arguments)) + token * shape.packed_rows + row;
    if (part > 0) sum += *held;
    if (part + 1 < launch.plan.parts) {
      *held = sum;
      continue;
    }
    if (row >= shape.rows) continue;
    const int64_t at = token * shape.rows + row;
    if (arguments.type == HalfType::kFloat16) {
      if (arguments.bias != nullptr) sum += widen(static_cast<const __half*>(arguments.bias)[row]);
      static_cast<__half*>(arguments.y)[at] = rounded<__half>(sum);
    } else {
      if (arguments.bias != nullptr)
        sum += widen(static_cast<const __nv_bfloat16*>(arguments.bias)[row]);
      static_cast<__nv_bfloat16*>(arguments.y)[at] = rounded<__nv_bfloat16>(sum);
    }
  }
}

// Each warp copies for itself, each lane part of it, to a place of its own in the slot: no other
// warp reads there.
template <int kBits, int kEights, int kSpan>
__device__ void copy_by_lanes(const TilesLaunch& launch, char* to, Walk& walk, int warp, int lane) {
  using Place = Slot<kBits, kEights, kSpan>;
  if (!walk.done()) {
    const int turn = walk.turn(warp);
    if (turn < walk.count()) {
      const Source<Place, kSpan> from(launch.arguments.weight, walk, walk.first + turn);
      const auto copy = [&](char* there, const char* here, int bytes) {
        for (int at = 16 * lane; at < bytes; at += 512) copy_16(there + at, here + at);
      };
      copy(to + warp * Place::kCodeBytes, from.codes, Place::kCodeBytes);
      copy(to + Place::kScalesAt + warp * Place::kScaleBytes, from.scales, Place::kScaleBytes);
      if (from.zeros != nullptr)
        copy(to + Place::kZerosAt + warp * Place::kZeroBytes, from.zeros, Place::kZeroBytes);
    }
    walk.next();
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int kBits, int kEights, int kSpan>
__global__ void __launch_bounds__(kThreads, 1)
    matmul_tiles_kernel(const __grid_constant__ TilesLaunch launch) {
  using Place = Slot<kBits, kEights, kSpan>;
  extern __shared__ __align__(128) char memory[];
  const MatmulArguments& arguments = launch.arguments;
  const PackedShape& shape = arguments.weight.shape;
  const TilesPlan& plan = launch.plan;
  Shared shared;
  shared.factors = reinterpret_cast<float*>(memory);
  shared.sums = reinterpret_cast<float*>(memory + kFactorBytes);
  shared.slots = memory + kFactorBytes + sum_bytes(kEights);
  shared.input_sums = reinterpret_cast<float*>(shared.slots + kSlots * plan.slot_bytes);
  shared.inputs =
      reinterpret_cast<__half*>(reinterpret_cast<char*>(shared.input_sums) + plan.input_sum_bytes);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  Walk walk{.strips = static_cast<int>(shape.packed_rows / kTileRows),
            .step = static_cast<int>(gridDim.x),
            .first_strip = static_cast<int>(blockIdx.x),
            .blocks = static_cast<int>(shape.packed_columns / kTileColumns),
            .part_blocks = static_cast<int>(plan.part_blocks)};
  walk.begin();
  Walk ahead = walk;
  for (int slot = 0; slot < kSlots; ++slot)
    copy_by_lanes<kBits, kEights, kSpan>(launch, shared.slots + slot * plan.slot_bytes, ahead, warp,
                                         lane);

  int slot = 0;
  uint32_t inputs[kEights];
  float totals[2][kEights][4] = {};
  int part = -1;
  int first_block = 0;
  while (!walk.done()) {
    if (walk.part != part) {
      // Sums of the last strip are still read, and the factors with them.
      __syncthreads();
      part = walk.part;
      first_block = walk.first;
      const int part_columns = (walk.end - first_block) * kColumns;
      load_inputs<kEights>(launch, shared, int64_t{first_block} * kTileColumns, part_columns);
      __syncthreads();
      // Of the tokens that a lane points at, those beyond the last one stand for it: nothing reads
      // what they give.
#pragma unroll
      for (int e = 0; e < kEights; ++e) {
        const int token = min(8 * e + lane % 8, static_cast<int>(arguments.m) - 1);
        inputs[e] = static_cast<uint32_t>(__cvta_generic_to_shared(
            shared.inputs + token * (part_columns + kInputPad) + lane / 8 * 8));
      }
      sum_inputs<kEights, kSpan>(shared, inputs, walk.end - first_block, warp, lane);
      __syncthreads();
    }

    char* const held = shared.slots + slot * plan.slot_bytes;
    asm volatile("cp.async.wait_group %0;" ::"n"(kSlots - 1) : "memory");
    __syncwarp();
    const int turn = walk.turn(warp);
    if (turn < walk.count()) {
      const int block = walk.first - first_block + turn;
      multiply_block<kBits, kEights, kSpan>(
          totals, reinterpret_cast<const uint32_t*>(held + warp * Place::kCodeBytes),
          reinterpret_cast<const __half*>(held + Place::kScalesAt + warp * Place::kScaleBytes),
          reinterpret_cast<const uint8_t*>(held + Place::kZerosAt + warp * Place::kZeroBytes),
          shape.symmetric,
          reinterpret_cast<const float2*>(shared.input_sums) + block * Place::kSpans * kEights * 4,
          inputs, static_cast<uint32_t>(block * kColumns * 2), lane);
    }
    __syncwarp();
    copy_by_lanes<kBits, kEights, kSpan>(launch, held, ahead, warp, lane);
    slot = slot + 1 == kSlots ? 0 : slot + 1;
    const int strip = walk.strip;
    if (walk.next()) continue;

    float* const mine = shared.sums + warp * 8 * kEights * kSumPitch;
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
      for (int e = 0; e < kEights; ++e)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int token = 8 * e + lane % 4 * 2 + i % 2;
          if (token < arguments.m)
            mine[token * kSumPitch + 16 * tile + 8 * (i / 2) + lane / 4] = totals[tile][e][i];
          totals[tile][e][i] = 0;
        }
    __syncthreads();
    finish_strip<kEights>(launch, shared, strip, part);
    __syncthreads();
  }
}

#endif

template <int kBits, int kEights, int kSpan>
void launch_kernel(const TilesLaunch& launch, cudaStream_t stream) {
  launch_early(matmul_tiles_kernel<kBits, kEights, kSpan>, launch.plan.grid, kThreads,
               launch.plan.shared_bytes, /*early=*/false, stream, launch);
}

template <int kBits, int kEights>
void launch_eights(const TilesLaunch& launch, cudaStream_t stream) {
  by_span(launch.arguments.weight.shape.scale_span,
          [&](auto span) { launch_kernel<kBits, kEights, decltype(span)::value>(launch, stream); });
}

}  // namespace tiles

template <int kBits>
void launch_tiles(const TilesLaunch& launch, void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  if (launch.plan.eights == 2) return tiles::launch_eights<kBits, 2>(launch, queue);
  tiles::launch_eights<kBits, 4>(launch, queue);
}

}  // namespace gptqb::kernels
