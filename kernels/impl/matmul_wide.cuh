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
// Registers of a thread that multiplies, by blocks that share a multiprocessor.
constexpr int multiplier_registers(int at_once) { return at_once == 1 ? 232 : 96; }

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

// Where the sums of splits lie.
__device__ inline float* split_sums(const WideLaunch& launch) {
  return reinterpret_cast<float*>(scratch_of(launch.arguments) + launch.plan.gathered_bytes);
}

// Two neighbours of 16 bits each, the first in the lower half.
template <class T>
__device__ inline uint32_t pair_bits(T first, T second) {
  static_assert(sizeof(T) == 2);
  return *reinterpret_cast<const uint16_t*>(&first) |
         static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(&second)) << 16;
}

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
  // `a` as TileCodes gives it for codes at bit `position` below kLift: 1024 + code * 2^position, a
  // float16 whatever the code.
  __device__ void apply(uint32_t (&a)[4], int position) const {
    const __half2 unit = __float2half2_rn(1.F / static_cast<float>(1 << position));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float zero = zero_[i % 2];
      const __half2 offset = __float2half2_rn(-(static_cast<float>(1024 >> position) + zero));
      const __half2 lifted = bits_to_half2(a[i]);
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

// What a block does of a unit.
struct Part {
  int row;    // first of the weight
  int token;  // first
  int first;  // block of columns
  int end;
  float* sums;  // of a split that does not meet others [tokens][kRows], or null
};

// The units of a cluster, for those of its threads that copy and those that multiply alike.
struct Work {
  const WideLaunch& launch;
  int cluster;
  int block;  // within it
  int first;  // of its blocks, within the cluster that is launched

  // Calls action(part) for each.
  template <class Action>
  __device__ void for_each(const Action& action) const {
    const WidePlan& plan = launch.plan;
    const int whole = static_cast<int>(plan.whole);
    const int splits = static_cast<int>(plan.splits);
    for (int unit = cluster; unit < plan.units(); unit += static_cast<int>(plan.clusters)) {
      const int split = unit - whole;
      const WideTile tile = wide_tile(plan, split < 0 ? unit : whole + split / splits);
      Part part{(tile.row_tile * plan.cluster + block) * kRows, tile.token_tile * plan.tokens, 0,
                static_cast<int>(plan.blocks), nullptr};
      if (split >= 0) {
        part.first = split % splits * static_cast<int>(plan.split_blocks);
        part.end = min(part.first + static_cast<int>(plan.split_blocks), part.end);
        if (!plan.meets)
          part.sums = split_sums(launch) +
                      (static_cast<int64_t>(split) * plan.cluster + block) * plan.tokens * kRows;
      }
      action(part);
    }
  }
};

// The ring of stages, as a thread goes through it.
struct Stages {
  char* memory;
  uint64_t* full;
  uint64_t* empty;
  int bytes;  // of a stage
  int count;
  int stage = 0;
  uint32_t parity = 0;

  __device__ char* held() const { return memory + stage * bytes; }
  __device__ void next() {
    if (++stage < count) return;
    stage = 0;
    parity ^= 1U;
  }
};

template <int kBits, int kTokens, int kSpan>
__device__ void copy_stages(const Maps& maps, const Work& work, Stages stages) {
  using Place = Stage<kBits, kTokens, kSpan>;
  const PackedView& weight = work.launch.arguments.weight;
  const bool zeros = weight.zeros != nullptr;
  const auto blocks_a_span = max(static_cast<int>(weight.shape.scale_span / kTileColumns), 1);
  const int cluster = work.launch.plan.cluster;
  // This block's share of the activations, which all blocks of the cluster get.
  const int share = kTokens / cluster * work.block;
  const auto everyone = static_cast<uint16_t>((1U << cluster) - 1);
  // Strips and tokens beyond the last one arrive as zeros.
  const uint32_t bytes = 2 * Place::kBoxBytes + kStrips * (Place::kCodeBytes + Place::kScaleBytes +
                                                           (zeros ? Place::kZeroBytes : 0));
  work.for_each([&](const Part& part) {
    const int first_strip = part.row / static_cast<int>(kTileRows);
    for (int block = part.first; block < part.end; ++block, stages.next()) {
      hopper::wait(stages.empty + stages.stage, stages.parity ^ 1U);
      char* const to = stages.held();
      uint64_t* const full = stages.full + stages.stage;
      hopper::arrive_expecting(full, bytes);
      const int span = kSpan < kColumns ? block * Place::kSpans : block / blocks_a_span;
      constexpr int kRowsOfStrip = static_cast<int>(kTileRows);
#pragma unroll
      for (int box = 0; box < Place::kCodeBoxes; ++box)
        hopper::copy_box(to + Place::kCodesAt + box * kStrips * Place::kCodeBoxBytes, maps.codes,
                         full, (block * Place::kCodeBoxes + box) * Place::kCodeBoxBytes / 8,
                         first_strip);
      hopper::copy_box(to + Place::kScalesAt, maps.scales, full, span * kRowsOfStrip, first_strip);
      if (zeros)
        hopper::copy_box(to + Place::kZerosAt, maps.zeros, full, span * kRowsOfStrip, first_strip);
#pragma unroll
      for (int box = 0; box < 2; ++box) {
        char* const box_to = to + box * Place::kBoxBytes + share * 128;
        const int column = block * kColumns + 64 * box;
        // One to a single block of several in a cluster is slow where it ends beyond the tokens.
        if (work.launch.plan.meets)
          hopper::copy_box(box_to, maps.x, full, column, part.token + share);
        else
          hopper::copy_box_to(everyone, box_to, maps.x, full, column, part.token + share);
      }
    }
  });
}

// Adds up one unit's products in `sums`.
template <int kBits, int kTokens, int kSpan, bool kFloat16>
__device__ void multiply_unit(float (&sums)[kTokens / 2], const Work& work, const Part& part,
                              Stages& stages) {
  using Place = Stage<kBits, kTokens, kSpan>;
  constexpr int kSpanSteps = (kSpan < kColumns ? kSpan : kColumns) / 16;
  const bool symmetric = work.launch.arguments.weight.shape.symmetric;
  const int cluster = work.launch.plan.cluster;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32 - 4;  // of both warpgroups
  const int strip = warp / 2;
  const int half = warp % 2;
  // Of a strip's scales, that of this thread's row; that of row + 8 is the next.
  const auto place = static_cast<int>(tile_scale_place(16 * half + lane / 4));
  // A stage holds what all blocks of the cluster copied, and each waits for all to be done.
  const auto free = [&](int stage) {
    if (lane < cluster)
      hopper::arrive_in(stages.empty + stage, static_cast<uint32_t>(work.first + lane));
  };
  int before = 0;  // stage of the block before
  int32_t adds = 0;
  uint32_t operands[2][kStepsAtOnce][4];
  for (int block = part.first; block < part.end; ++block, stages.next()) {
    hopper::wait(stages.full + stages.stage, stages.parity);
    const char* const held = stages.held();
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
    // All of a block before its first product: what is loaded between products, behind a branch for
    // zero points, makes the compiler wait for each product (ptxas C7513, 3 bits in spans of 64).
    Dequantizer<kBits, kFloat16> of_span[kSteps / kSpanSteps];
#pragma unroll
    for (int span = 0; span < kSteps / kSpanSteps; ++span) {
      const int at = span * static_cast<int>(kTileRows) + place;
      const float2 two = __half22float2(*reinterpret_cast<const __half2*>(scales + at));
      constexpr float kMiddle = 1 << (kBits - 1);
      of_span[span].set(two.x, two.y, symmetric ? kMiddle : static_cast<float>(zeros[at]),
                        symmetric ? kMiddle : static_cast<float>(zeros[at + 1]));
    }
    // Registers of a product must stand until it is done: two sets take turns.
#pragma unroll
    for (int first = 0; first < kSteps; first += kStepsAtOnce) {
      uint32_t(&set)[kStepsAtOnce][4] = operands[first / kStepsAtOnce % 2];
      hopper::wait_for_products<1>();
      // Nothing of the stage before is in work any more.
      if (first == kStepsAtOnce && block > part.first) free(before);
#pragma unroll
      for (int step = first; step < first + kStepsAtOnce; ++step) {
        codes.operand(step, set[step - first], work.launch.lift);
        of_span[step / kSpanSteps].apply(
            set[step - first], TileCodes<kBits>::position(TileCodes<kBits>::position_index(step)));
      }
      hopper::begin_products();
#pragma unroll
      for (int step = first; step < first + kStepsAtOnce; ++step) {
        hopper::multiply_rows<kFloat16, kTokens>(sums, set[step - first],
                                                 boxes[step / 4] + step % 4 * 2, adds);
        adds = 1;
      }
      hopper::commit_products();
    }
    before = stages.stage;
  }
  hopper::wait_for_products<0>();
  free(before);
}

// What the thread holds of 8 rows by 8 tokens becomes 2 rows of one token, from 2 tokens of one
// row.
__device__ inline uint32_t transposed(uint32_t two) {
  uint32_t other;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(other) : "r"(two));
  return other;
}

// The sums of a unit of split columns to the workspace.
template <int kTokens>
__device__ void store_split(const float (&sums)[kTokens / 2], float* split) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = (static_cast<int>(threadIdx.x) / 32 - 4) * 16;
  float* const to = split + lane % 4 * 2 * kRows + first_row + lane / 4;
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) to[(8 * j + i % 2) * kRows + i / 2 * 8] = sums[4 * j + i];
}

// Where splits meet: sums in shared memory [tokens][kRows], each token some banks further on.
constexpr int kMeetRows = kRows + 4;

// Of all threads that multiply, while no others are at work.
__device__ inline void sync_multipliers() {
  asm volatile("bar.sync 1, %0;" ::"n"(kMultipliers * kWarpgroup) : "memory");
}

// The sums of a split to where its stages lay.
template <int kTokens>
__device__ void store_to_meet(const float (&sums)[kTokens / 2], float* memory) {
  sync_multipliers();  // no product reads a stage any more
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first_row = (static_cast<int>(threadIdx.x) / 32 - 4) * 16;
  float* const to = memory + lane % 4 * 2 * kMeetRows + first_row + lane / 4;
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) to[(8 * j + i % 2) * kMeetRows + i / 2 * 8] = sums[4 * j + i];
}

// Adds up the splits of a tile in order and stores this block's share of the tokens; a warp takes a
// token, each lane four rows of it.
template <int kTokens, class T>
__device__ void add_met(const MatmulArguments& arguments, const WidePlan& plan, const Part& part,
                        int split, const float* memory) {
  const int64_t rows = arguments.weight.shape.rows;
  const auto splits = static_cast<int>(plan.splits);
  const int each = (kTokens + splits - 1) / splits;
  const int end = min(min((split + 1) * each, kTokens),
                      static_cast<int>(min(arguments.m - part.token, int64_t{kTokens})));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = part.row + 4 * lane;
  float bias[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (arguments.bias != nullptr && row + i < rows)
      bias[i] = widen(static_cast<const T*>(arguments.bias)[row + i]);
  for (int token = split * each + static_cast<int>(threadIdx.x) / 32 - 4; token < end;
       token += kMultipliers * 4) {
    float sum[4] = {};
    const auto* const at = reinterpret_cast<const float4*>(memory + token * kMeetRows) + lane;
#pragma unroll 4
    for (int other = 0; other < splits; ++other) {
      const float4 four = hopper::load_in(at, static_cast<uint32_t>(other));
      sum[0] += four.x;
      sum[1] += four.y;
      sum[2] += four.z;
      sum[3] += four.w;
    }
    T* const to = static_cast<T*>(arguments.y) + (part.token + token) * rows + row;
    if (rows % 4 == 0 && row < rows) {
      *reinterpret_cast<uint2*>(to) = {
          pair_bits(rounded<T>(sum[0] + bias[0]), rounded<T>(sum[1] + bias[1])),
          pair_bits(rounded<T>(sum[2] + bias[2]), rounded<T>(sum[3] + bias[3]))};
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (row + i < rows) to[i] = rounded<T>(sum[i] + bias[i]);
    }
  }
}

// The sums of a tile to y, two rows at a time where these are even in number.
template <int kTokens, class T, bool kEven>
__device__ void store_tile(const float (&sums)[kTokens / 2], const MatmulArguments& arguments,
                           const Part& part) {
  const int64_t rows = arguments.weight.shape.rows;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t first_row = part.row + (static_cast<int>(threadIdx.x) / 32 - 4) * 16;
  const int64_t first_token = part.token + lane / 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int64_t bias_at = first_row + 8 * h + lane / 4;
    const float bias = arguments.bias == nullptr || bias_at >= rows
                           ? 0
                           : widen(static_cast<const T*>(arguments.bias)[bias_at]);
    const int64_t row = first_row + 8 * h + lane % 4 * 2;
    auto* to = static_cast<uint16_t*>(arguments.y) + first_token * rows + row;
    // Tokens from the first that are stored.
    const int64_t tokens = row < rows ? arguments.m - first_token : 0;
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j, to += 8 * rows) {
      const uint32_t two = transposed(pair_bits(rounded<T>(sums[4 * j + 2 * h] + bias),
                                                rounded<T>(sums[4 * j + 2 * h + 1] + bias)));
      if (8 * j >= tokens) continue;
      if constexpr (kEven) {
        *reinterpret_cast<uint32_t*>(to) = two;
      } else {
        to[0] = static_cast<uint16_t>(two);
        if (row + 1 < rows) to[1] = static_cast<uint16_t>(two >> 16);
      }
    }
  }
}

#endif  // GPTQB_HOPPER

template <int kBits, int kTokens, int kSpan, bool kFloat16>
__global__ void __launch_bounds__(kThreads, wide_at_once(kTokens))
    matmul_wide_kernel(const __grid_constant__ Maps maps,
                       const __grid_constant__ WideLaunch launch) {
#ifdef GPTQB_HOPPER
  extern __shared__ char memory[];
  const WidePlan& plan = launch.plan;
  // Boxes lie at multiples of 1024 bytes; barriers behind the stages.
  char* const first_stage = memory + (1024 - hopper::shared_address(memory) % 1024) % 1024;
  auto* const full = reinterpret_cast<uint64_t*>(first_stage + plan.stages * plan.stage_bytes);
  Stages stages{first_stage, full, full + kMaxStages, static_cast<int>(plan.stage_bytes),
                plan.stages};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < plan.stages; ++stage) {
      hopper::init_barrier(stages.full + stage, 1);
      hopper::init_barrier(stages.empty + stage, plan.cluster * kMultipliers * kWarpgroup / 32);
    }
    hopper::publish_barriers();
  }
  hopper::sync_cluster();
  let_next_begin();
  wait_for_earlier_kernels();
  const auto block = static_cast<int>(blockIdx.x);
  const Work work{launch, block / plan.cluster, block % plan.cluster,
                  plan.meets ? block % static_cast<int>(plan.splits) : 0};
  using T = std::conditional_t<kFloat16, __half, __nv_bfloat16>;
  constexpr int kAtOnce = wide_at_once(kTokens);
  if (threadIdx.x < kWarpgroup) {
    hopper::give_registers<40>();
    if (threadIdx.x == 0) copy_stages<kBits, kTokens, kSpan>(maps, work, stages);
    __syncwarp();
    if (plan.meets) hopper::sync_cluster();  // with those below
  } else {
    hopper::take_registers<multiplier_registers(kAtOnce)>();
    work.for_each([&](const Part& part) {
      float sums[kTokens / 2];
      multiply_unit<kBits, kTokens, kSpan, kFloat16>(sums, work, part, stages);
      if (plan.meets) {
        auto* const met = reinterpret_cast<float*>(first_stage);
        store_to_meet<kTokens>(sums, met);
        hopper::sync_cluster();
        add_met<kTokens, T>(launch.arguments, plan, part, work.first, met);
      } else if (part.sums != nullptr) {
        store_split<kTokens>(sums, part.sums);
      } else if (launch.arguments.weight.shape.rows % 2 == 0) {
        store_tile<kTokens, T, true>(sums, launch.arguments, part);
      } else {
        store_tile<kTokens, T, false>(sums, launch.arguments, part);
      }
    });
  }
  // No block leaves while another still reads its memory or writes to it.
  hopper::sync_cluster();
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
  maps.x = swizzled_map(launch.arguments.type, x, launch.arguments.m, columns,
                        kTokens / launch.plan.cluster);
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
               dim3(static_cast<unsigned>(plan.clusters * plan.cluster)), kThreads,
               plan.shared_bytes, /*early=*/true, plan.launched_cluster(), stream, maps, launch);
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
  if (launch.plan.sums_bytes > 0) add_wide_splits_cuda(launch, stream);
}

}  // namespace gptqb::kernels
