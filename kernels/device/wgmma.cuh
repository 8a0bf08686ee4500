// Warpgroup products with the first operand in registers (PTX ISA, "wgmma.mma_async"): sums (+)= A
// B over 16 summed indices, A [64, 16] in registers as for m16n8k16 (a warp holds 16 rows), B in
// shared memory as rows of 64 summed indices, 128 bytes each, swizzled. For Hopper only, as
// hopper.cuh.
#pragma once

#include "kernels/device/hopper.cuh"

#ifdef GPTQB_HOPPER
namespace gptqb::kernels::hopper {

// Describes a box of rows of 64 summed indices; 16 indices further on are 32 bytes.
__device__ inline uint64_t describe_rows(uint32_t box) {
  constexpr uint64_t kEightRows = 8 * 128;
  constexpr uint64_t kSwizzle128 = 1;
  return static_cast<uint64_t>((box & 0x3FFFFU) >> 4) | uint64_t{1} << 16 |
         (kEightRows >> 4) << 32 | kSwizzle128 << 62;
}

// `places` and the sums, then where A and B stand, and where what says whether they are added to.
#define GPTQB_WGMMA_OF(type, columns, places, a_b, adds_at, ...)                                 \
  asm volatile(                                                                                  \
      "{\n"                                                                                      \
      ".reg .pred adds;\n"                                                                       \
      "setp.ne.b32 adds, " adds_at                                                               \
      ", 0;\n"                                                                                   \
      "wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" places "}, " a_b \
      ", adds, 1, 1, 0;\n"                                                                       \
      "}"                                                                                        \
      : __VA_ARGS__                                                                              \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))

#define GPTQB_WGMMA(...)                \
  if constexpr (kFloat16)               \
    GPTQB_WGMMA_OF("f16", __VA_ARGS__); \
  else                                  \
    GPTQB_WGMMA_OF("bf16", __VA_ARGS__)

// A warpgroup's thread t holds sums[4 j + 2 h + k] of row t / 32 * 16 + t % 32 / 4 + 8 h, column 8
// j + t % 4 * 2 + k. `adds` 0: the sums so far are dropped.
template <bool kFloat16, int kColumns>
__device__ inline void multiply_rows(float (&sums)[kColumns / 2], const uint32_t (&a)[4],
                                     uint64_t b, int32_t adds) {
  if constexpr (kColumns == 16) {
    GPTQB_WGMMA("16", GPTQB_PLACES_8, "{%8, %9, %10, %11}, %12", "%13", GPTQB_SUMS_8(0));
  } else if constexpr (kColumns == 32) {
    GPTQB_WGMMA("32", GPTQB_PLACES_16, "{%16, %17, %18, %19}, %20", "%21", GPTQB_SUMS_16(0));
  } else if constexpr (kColumns == 64) {
    GPTQB_WGMMA("64", GPTQB_PLACES_32, "{%32, %33, %34, %35}, %36", "%37", GPTQB_SUMS_32(0));
  } else if constexpr (kColumns == 128) {
    GPTQB_WGMMA("128", GPTQB_PLACES_64, "{%64, %65, %66, %67}, %68", "%69", GPTQB_SUMS_64(0));
  } else {
    GPTQB_WGMMA("256", GPTQB_PLACES_128, "{%128, %129, %130, %131}, %132", "%133",
                GPTQB_SUMS_128(0));
  }
}
#undef GPTQB_WGMMA
#undef GPTQB_WGMMA_OF

}  // namespace gptqb::kernels::hopper
#endif  // GPTQB_HOPPER
