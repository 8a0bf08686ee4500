// The kernel of `cuda_tiles` (kernels/matmul_tiles.h) for one width of codes.
//
// Tensor cores take the codes as they lie (kernels/device/tile_codes.cuh): subnormal float16
// numbers, exact products, float32 sums. With z the zero point and sums over the columns of a span,
//
//   y += scale * (sum of code * x - z * sum of x)
//
// where the sum of x is one more product, with ones. So a weight costs a mask and its share of a
// product, and no width needs a conversion.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cuda_check.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/device/hopper.cuh"
#include "kernels/device/tile_codes.cuh"
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
constexpr int kMaxSlots = 16;

__host__ __device__ constexpr int sum_buffers(int eights) { return eights <= 2 ? 2 : 1; }

// Shared memory, in this order.
struct Shared {
  uint64_t* barriers;  // [kWarps][kMaxSlots]
  float* factors;      // [kMaxTokens]: what the activations of a token were divided by
  float* sums;         // [buffers][kWarps][8 * eights tokens][kSumPitch]
  char* slots;         // [kWarps][slots][slot_bytes]
  __half* inputs;      // [m][part columns + kInputPad]
};
constexpr int64_t kBarrierBytes = int64_t{8} * kWarps * kMaxSlots;
constexpr int64_t kFactorBytes = int64_t{4} * TilesPlan::kMaxTokens;
__host__ __device__ constexpr int64_t sum_bytes(int eights) {
  return int64_t{4} * sum_buffers(eights) * kWarps * 8 * eights * kSumPitch;
}

static_assert(kBarrierBytes + kFactorBytes + sum_bytes(1) == tiles_fixed_bytes(1) &&
              kBarrierBytes + kFactorBytes + sum_bytes(4) == tiles_fixed_bytes(4));

// What a slot holds of one strip by one block: codes, scales and zero points.
__host__ __device__ constexpr int64_t code_bytes(int64_t bits) { return tile_words(bits) * 4; }
__host__ __device__ constexpr int64_t spans_of_block(int64_t span) {
  return span < kTileColumns ? kTileColumns / span : 1;
}

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800

__device__ inline void copy_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from)
               : "memory");
}

// Copies of one warp: each lane part of it before 9.0, one lane all of it from then on.
class Copies {
 public:
  __device__ Copies(const TilesLaunch& launch, const Shared& shared, int warp, int lane)
      : weight_(launch.arguments.weight),
        slot_bytes_(static_cast<int>(launch.plan.slot_bytes)),
        slots_(launch.plan.slots),
        lane_(lane),
        first_(shared.slots + static_cast<int64_t>(warp) * slots_ * slot_bytes_),
        barriers_(shared.barriers + warp * kMaxSlots) {
#ifdef GPTQB_HOPPER
    if (lane_ == 0) {
      for (int slot = 0; slot < slots_; ++slot) hopper::init_barrier(barriers_ + slot, 1);
      hopper::publish_barriers();
    }
    __syncwarp();
#endif
  }

  __device__ char* slot(int index) const { return first_ + index * slot_bytes_; }

  // Starts copying a strip's block; `count` spans of scales.
  template <int kBits>
  __device__ void start(int index, int64_t strip, int64_t block, int count) const {
    const PackedShape& shape = weight_.shape;
    const int64_t blocks = shape.packed_columns / kTileColumns;
    const int64_t scale_row =
        (strip * shape.scale_spans() + block * kTileColumns / shape.scale_span) * kTileRows;
    constexpr int kCodes = static_cast<int>(code_bytes(kBits));
    const char* codes =
        reinterpret_cast<const char*>(weight_.codes) + (strip * blocks + block) * kCodes;
    const auto* scales = reinterpret_cast<const char*>(weight_.scales + scale_row);
    const int scale_bytes = count * kRows * 2;
    const auto* zeros = reinterpret_cast<const char*>(weight_.zeros + scale_row);
    const int zero_bytes = weight_.zeros == nullptr ? 0 : count * kRows;
    char* const to = slot(index);
#ifdef GPTQB_HOPPER
    if (lane_ != 0) return;
    uint64_t* const barrier = barriers_ + index;
    hopper::arrive_expecting(barrier, kCodes + scale_bytes + zero_bytes);
    hopper::copy_bytes(to, codes, kCodes, barrier);
    hopper::copy_bytes(to + kCodes, scales, scale_bytes, barrier);
    if (zero_bytes > 0) hopper::copy_bytes(to + kCodes + scale_bytes, zeros, zero_bytes, barrier);
#else
    for (int at = 16 * lane_; at < kCodes; at += 512) copy_16(to + at, codes + at);
    for (int at = 16 * lane_; at < scale_bytes; at += 512) copy_16(to + kCodes + at, scales + at);
    for (int at = 16 * lane_; at < zero_bytes; at += 512)
      copy_16(to + kCodes + scale_bytes + at, zeros + at);
#endif
  }

  // Ends what belongs to one slot; called for each, also where nothing was started.
  __device__ void commit() const {
#ifndef GPTQB_HOPPER
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
  }

  __device__ void wait(int index, uint32_t parity) const {
#ifdef GPTQB_HOPPER
    hopper::wait(barriers_ + index, parity);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(TilesPlan::kSlotsBefore90 - 1) : "memory");
    __syncwarp();
#endif
  }

 private:
  const PackedView& weight_;
  int slot_bytes_;
  int slots_;
  int lane_;
  char* first_;
  uint64_t* barriers_;
};

// The blocks of a warp in order: by part, strip, block.
struct Walk {
  int strips, step, first_strip;  // of the matrix, between two and the first of a block's
  int blocks, part_blocks;
  int warp;
  int part = 0, strip = 0, block = 0, end = 0;
  int shift = 0;  // so that blocks left over after whole rounds of warps go to others each time

  __device__ void begin() {
    strip = first_strip;
    enter();
    skip();
  }
  __device__ bool done() const { return part * part_blocks >= blocks; }
  __device__ void next() {
    block += kWarps;
    skip();
  }

 private:
  __device__ void enter() {
    const int start = part * part_blocks;
    end = start + part_blocks < blocks ? start + part_blocks : blocks;
    block = start + ((warp - shift) & (kWarps - 1));
  }
  __device__ void skip() {
    while (block >= end && !done()) {
      shift = (shift + end - part * part_blocks) & (kWarps - 1);
      strip += step;
      if (strip >= strips) {
        strip = first_strip;
        ++part;
      }
      if (!done()) enter();
    }
  }
};

// Activations of a part's columns as float16; what stands beyond the matrix is zero. bfloat16 ones
// are divided by a power of two for each token, after which float16 holds all that counts: what it
// cannot is below 2^-38 of the largest.
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
    // The largest becomes 2^14 to 2^15. Infinity and what is no number stay what they are.
    const int exponent = largest == 0 ? 0 : (largest >> 7) - 127 - 14;
    for (int64_t column = lane; column < columns; column += 32) {
      const int64_t at = input(column);
      shared.inputs[token * pitch + column] =
          at < 0 ? __half(0)
                 : __float2half_rn(scalbnf(widen(x[token * shape.columns + at]), -exponent));
    }
    if (lane == 0) shared.factors[token] = scalbnf(1.F, exponent);
  }
}

// One strip by one block: 32 rows by 128 columns by 8 * kEights tokens.
template <int kBits, int kEights, int kSpan>
__device__ inline void multiply_block(float (&totals)[2][kEights][4], const char* slot,
                                      bool has_zeros, const uint32_t (&inputs)[kEights],
                                      uint32_t column_bytes, int lane) {
  using Codes = TileCodes<kBits>;
  constexpr int kPositions = Codes::kPositions;
  constexpr int kSpanSteps = kSpan / 16;
  Codes codes[2];
#pragma unroll
  for (int tile = 0; tile < 2; ++tile)
    codes[tile].load(reinterpret_cast<const uint32_t*>(slot) + tile * 32 * Codes::kWords, lane);
  const auto* scales = reinterpret_cast<const __half*>(slot + code_bytes(kBits));
  const auto* zeros = reinterpret_cast<const uint8_t*>(scales + kRows * spans_of_block(kSpan));

  float sums[kPositions][2][kEights][4] = {};
  float input_sums[kEights][4] = {};
  const uint32_t ones[4] = {0x3C003C00U, 0x3C003C00U, 0x3C003C00U, 0x3C003C00U};
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
#pragma unroll
    for (int e = 0; e < kEights; ++e) multiply_add(input_sums[e], ones, b[e][b0], b[e][b0 + 1]);

    if ((step + 1) % kSpanSteps != 0) continue;
    // The span ends: its sums take their scale.
    const int span = step / kSpanSteps;
#pragma unroll
    for (int tile = 0; tile < 2; ++tile)
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const int row = 16 * tile + 8 * lower + lane / 4;
        const float scale = __half2float(scales[span * kRows + row]);
        const float zero =
            has_zeros ? static_cast<float>(zeros[span * kRows + row]) : float(1 << (kBits - 1));
#pragma unroll
        for (int e = 0; e < kEights; ++e)
#pragma unroll
          for (int token = 0; token < 2; ++token) {
            const int at = 2 * lower + token;
            float sum = -zero * input_sums[e][token];
#pragma unroll
            for (int i = 0; i < kPositions; ++i) {
              sum = __fmaf_rn(sums[i][tile][e][at], float(1 << (24 - Codes::position(i))), sum);
              sums[i][tile][e][at] = 0;
            }
            totals[tile][e][at] = __fmaf_rn(scale, sum, totals[tile][e][at]);
          }
      }
#pragma unroll
    for (int e = 0; e < kEights; ++e)
#pragma unroll
      for (int i = 0; i < 4; ++i) input_sums[e][i] = 0;
  }
}

// Adds up what the warps found for a strip; the last part writes y.
template <int kEights>
__device__ void finish_strip(const TilesLaunch& launch, const Shared& shared, const float* sums,
                             int64_t strip, int64_t part) {
  const MatmulArguments& arguments = launch.arguments;
  const PackedShape& shape = arguments.weight.shape;
  for (int output = static_cast<int>(threadIdx.x); output < kRows * arguments.m;
       output += kThreads) {
    const int token = output / kRows;
    const int64_t row = strip * kRows + output % kRows;
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp)
      sum += sums[(warp * 8 * kEights + token) * kSumPitch + output % kRows];
    if (arguments.type == HalfType::kBFloat16) sum *= shared.factors[token];
    float* const held = static_cast<float*>(arguments.workspace) + token * shape.packed_rows + row;
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

template <int kBits, int kEights, int kSpan>
__global__ void __launch_bounds__(kThreads, kEights == 4 ? 1 : 2)
    matmul_tiles_kernel(const __grid_constant__ TilesLaunch launch) {
  extern __shared__ __align__(128) char memory[];
  const MatmulArguments& arguments = launch.arguments;
  const PackedShape& shape = arguments.weight.shape;
  Shared shared;
  shared.barriers = reinterpret_cast<uint64_t*>(memory);
  shared.factors = reinterpret_cast<float*>(memory + kBarrierBytes);
  shared.sums = reinterpret_cast<float*>(memory + kBarrierBytes + kFactorBytes);
  shared.slots = memory + kBarrierBytes + kFactorBytes + sum_bytes(kEights);
  shared.inputs = reinterpret_cast<__half*>(
      shared.slots + static_cast<int64_t>(kWarps) * launch.plan.slots * launch.plan.slot_bytes);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int slots = launch.plan.slots;
  constexpr int kSpans = static_cast<int>(spans_of_block(kSpan));

#ifdef GPTQB_HOPPER
  // The next kernel in the stream may begin to copy its weights.
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  const Copies copies(launch, shared, warp, lane);
  Walk ahead{.strips = static_cast<int>(shape.packed_rows / kTileRows),
             .step = static_cast<int>(gridDim.x),
             .first_strip = static_cast<int>(blockIdx.x),
             .blocks = static_cast<int>(shape.packed_columns / kTileColumns),
             .part_blocks = static_cast<int>(launch.plan.part_blocks),
             .warp = warp};
  ahead.begin();
  Walk here = ahead;
  const auto start = [&](int slot) {
    if (!ahead.done()) {
      copies.start<kBits>(slot, ahead.strip, ahead.block, kSpans);
      ahead.next();
    }
    copies.commit();
  };
  for (int slot = 0; slot < slots; ++slot) start(slot);
#ifdef GPTQB_HOPPER
  // Activations are the work of kernels before this one, y and the workspace may be theirs.
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif

  int slot = 0;
  uint32_t parity = 0;
  int buffer = 0;
  for (int part = 0; part < static_cast<int>(launch.plan.parts); ++part) {
    const int first_block = part * here.part_blocks;
    const int part_columns = min(here.part_blocks, here.blocks - first_block) * kColumns;
    load_inputs<kEights>(launch, shared, first_block * kTileColumns, part_columns);
    __syncthreads();
    const int64_t pitch = part_columns + kInputPad;
    // Of the tokens that a lane points at, those beyond the last one stand for it: nothing reads
    // what they give.
    uint32_t inputs[kEights];
#pragma unroll
    for (int e = 0; e < kEights; ++e) {
      const int token = min(8 * e + lane % 8, static_cast<int>(arguments.m) - 1);
      inputs[e] = static_cast<uint32_t>(
          __cvta_generic_to_shared(shared.inputs + token * pitch + lane / 8 * 8));
    }
    for (int strip = here.first_strip; strip < here.strips; strip += here.step) {
      float totals[2][kEights][4] = {};
      while (!here.done() && here.part == part && here.strip == strip) {
        copies.wait(slot, parity);
        multiply_block<kBits, kEights, kSpan>(
            totals, copies.slot(slot), arguments.weight.zeros != nullptr, inputs,
            static_cast<uint32_t>((here.block - first_block) * kColumns * 2), lane);
        __syncwarp();
        start(slot);
        if (++slot == slots) {
          slot = 0;
          parity ^= 1;
        }
        here.next();
      }
      float* const sums = shared.sums + buffer * kWarps * 8 * kEights * kSumPitch;
      float* const mine = sums + warp * 8 * kEights * kSumPitch;
#pragma unroll
      for (int tile = 0; tile < 2; ++tile)
#pragma unroll
        for (int e = 0; e < kEights; ++e)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int token = 8 * e + lane % 4 * 2 + i % 2;
            if (token < arguments.m)
              mine[token * kSumPitch + 16 * tile + 8 * (i / 2) + lane / 4] = totals[tile][e][i];
          }
      __syncthreads();
      finish_strip<kEights>(launch, shared, sums, strip, part);
      if constexpr (sum_buffers(kEights) == 1)
        __syncthreads();
      else
        buffer ^= 1;
    }
    // Sums of the last strip are still read, and the factors with them.
    __syncthreads();
  }
}

#endif

template <int kBits, int kEights, int kSpan>
void launch_kernel(const TilesLaunch& launch, cudaStream_t stream) {
  const auto kernel = matmul_tiles_kernel<kBits, kEights, kSpan>;
  GPTQB_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(launch.plan.shared_bytes)));
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(launch.plan.grid));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = static_cast<size_t>(launch.plan.shared_bytes);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = launch.plan.bulk ? 1 : 0;
  GPTQB_CUDA(cudaLaunchKernelEx(&config, kernel, launch));
}

template <int kBits, int kEights>
void launch_eights(const TilesLaunch& launch, cudaStream_t stream) {
  switch (launch.arguments.weight.shape.scale_span) {
    case 16:
      return launch_kernel<kBits, kEights, 16>(launch, stream);
    case 32:
      return launch_kernel<kBits, kEights, 32>(launch, stream);
    case 64:
      return launch_kernel<kBits, kEights, 64>(launch, stream);
    default:
      return launch_kernel<kBits, kEights, 128>(launch, stream);
  }
}

}  // namespace tiles

template <int kBits>
void launch_tiles(const TilesLaunch& launch, void* stream) {
  const auto queue = static_cast<cudaStream_t>(stream);
  switch (launch.plan.eights) {
    case 1:
      return tiles::launch_eights<kBits, 1>(launch, queue);
    case 2:
      return tiles::launch_eights<kBits, 2>(launch, queue);
    default:
      return tiles::launch_eights<kBits, 4>(launch, queue);
  }
}

}  // namespace gptqb::kernels
