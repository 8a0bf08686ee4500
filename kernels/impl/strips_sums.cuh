// Sums of `cuda_strips` (kernels/matmul_strips.h): of warps that share a strip, of ranges that
// share a tile of rows, and to y.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "kernels/device/half_vector.cuh"
#include "kernels/impl/strips_stage.cuh"

#ifdef GPTQB_HOPPER
namespace gptqb::kernels::strips {

// Of the warps that share a strip.
__device__ inline void sync_strip(int strip, int warps) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + strip), "r"(32 * warps) : "memory");
}

__device__ inline void raise(uint32_t* flag) {
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}
// Waits for it and takes it down.
__device__ inline void take_down(uint32_t* flag) {
  uint32_t raised = 0;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(raised) : "l"(flag) : "memory");
  } while (raised == 0);
  *flag = 0;
}

__device__ inline void add(float (&totals)[4], const float4& other) {
  totals[0] += other.x;
  totals[1] += other.y;
  totals[2] += other.z;
  totals[3] += other.w;
}
__device__ inline float4 four(const float (&totals)[4]) {
  return {totals[0], totals[1], totals[2], totals[3]};
}

// Adds up the totals of the warps that share a strip; those of the first one are then all of them.
// `sums`: [warps][2 * kEights][32 lanes].
template <int kEights>
__device__ void add_abreast(float (&totals)[2][kEights][4], float4* sums, int strip, int place,
                            int abreast, int lane) {
  sync_strip(strip, abreast);  // the sums of the tile before are read
  float4* const of_strip = sums + strip * abreast * 2 * kEights * 32 + lane;
#pragma unroll
  for (int i = 0; i < 2 * kEights; ++i)
    if (place > 0)
      of_strip[(place * 2 * kEights + i) * 32] = four(totals[i / kEights][i % kEights]);
  sync_strip(strip, abreast);
  if (place > 0) return;
#pragma unroll 3
  for (int other = 1; other < abreast; ++other)
#pragma unroll
    for (int i = 0; i < 2 * kEights; ++i)
      add(totals[i / kEights][i % kEights], of_strip[(other * 2 * kEights + i) * 32]);
}

// Where a range leaves the sums of a strip of the tile of rows that it did not begin.
template <int kEights>
__device__ float4* left_sums(const StripsLaunch& launch, int range, int strip) {
  return reinterpret_cast<float4*>(scratch_of(launch.arguments) + launch.plan.sums_at) +
         (range * launch.plan.strips + strip) * 2 * kEights * 32;
}
__device__ inline uint32_t* flag_of(const StripsLaunch& launch, int range, int strip) {
  return static_cast<uint32_t*>(launch.arguments.workspace) + range * launch.plan.strips + strip;
}

// Adds the sums that ranges after `range` left for the strip, up to the end of the tile.
template <int kEights>
__device__ void add_left_sums(float (&totals)[2][kEights][4], const StripsLaunch& launch, int range,
                              int end_unit, int strip, int lane) {
  const StripsPlan& plan = launch.plan;
  int end = range + 1;
  while (end < plan.ranges && first_unit(plan, end) < end_unit) ++end;
  for (int other = range + 1 + lane; other < end; other += 32)
    take_down(flag_of(launch, other, strip));
  __syncwarp();
#pragma unroll 2
  for (int other = range + 1; other < end; ++other)
#pragma unroll
    for (int i = 0; i < 2 * kEights; ++i)
      add(totals[i / kEights][i % kEights],
          __ldcg(left_sums<kEights>(launch, other, strip) + i * 32 + lane));
}

// Totals to y: this lane's rows are lane / 4 + 0, 8, 16, 24 of the strip, its tokens lane % 4 * 2
// and the next of each 8.
template <int kEights, class T>
__device__ void store_strip(const float (&totals)[2][kEights][4], const StripsLaunch& launch,
                            int64_t first_row, int lane) {
  const MatmulArguments& arguments = launch.arguments;
  const int64_t rows = arguments.weight.shape.rows;
  const auto* const factors = reinterpret_cast<const float*>(scratch_of(arguments));
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int64_t row = first_row + 8 * r + lane / 4;
    if (row >= rows) continue;
    const float bias =
        arguments.bias == nullptr ? 0 : widen(static_cast<const T*>(arguments.bias)[row]);
#pragma unroll
    for (int e = 0; e < kEights; ++e)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int token = 8 * e + lane % 4 * 2 + i;
        if (token >= arguments.m) continue;
        float sum = totals[r / 2][e][r % 2 * 2 + i] * static_cast<float>(1 << 24);
        if constexpr (std::is_same_v<T, __nv_bfloat16>) sum *= factors[token];
        static_cast<T*>(arguments.y)[token * rows + row] = rounded<T>(sum + bias);
      }
  }
}

}  // namespace gptqb::kernels::strips
#endif  // GPTQB_HOPPER
