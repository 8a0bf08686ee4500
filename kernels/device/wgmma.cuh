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

#define GPTQB_WGMMA_16(type)                                                                      \
  asm volatile(                                                                                   \
      "{\n"                                                                                       \
      ".reg .pred adds;\n"                                                                        \
      "setp.ne.b32 adds, %13, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n16k16.f32." type "." type                                 \
      " "                                                                                         \
      "{%0, %1, %2, %3, %4, %5, %6, %7}, "                                                        \
      "{%8, %9, %10, %11}, %12, adds, 1, 1, 0;\n"                                                 \
      "}"                                                                                         \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), \
        "+f"(sums[6]), "+f"(sums[7])                                                              \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))

#define GPTQB_WGMMA_32(type)                                                                      \
  asm volatile(                                                                                   \
      "{\n"                                                                                       \
      ".reg .pred adds;\n"                                                                        \
      "setp.ne.b32 adds, %21, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type                                 \
      " "                                                                                         \
      "{%0, %1, %2, %3, %4, %5, %6, %7,"                                                          \
      " %8, %9, %10, %11, %12, %13, %14, %15}, "                                                  \
      "{%16, %17, %18, %19}, %20, adds, 1, 1, 0;\n"                                               \
      "}"                                                                                         \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), \
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]),               \
        "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15])            \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))

#define GPTQB_WGMMA_64(type)                                                                      \
  asm volatile(                                                                                   \
      "{\n"                                                                                       \
      ".reg .pred adds;\n"                                                                        \
      "setp.ne.b32 adds, %37, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type                                 \
      " "                                                                                         \
      "{%0, %1, %2, %3, %4, %5, %6, %7,"                                                          \
      " %8, %9, %10, %11, %12, %13, %14, %15,"                                                    \
      " %16, %17, %18, %19, %20, %21, %22, %23,"                                                  \
      " %24, %25, %26, %27, %28, %29, %30, %31}, "                                                \
      "{%32, %33, %34, %35}, %36, adds, 1, 1, 0;\n"                                               \
      "}"                                                                                         \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), \
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]),               \
        "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]),           \
        "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]),           \
        "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]),           \
        "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]),           \
        "+f"(sums[31])                                                                            \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))

#define GPTQB_WGMMA_128(type)                                                                     \
  asm volatile(                                                                                   \
      "{\n"                                                                                       \
      ".reg .pred adds;\n"                                                                        \
      "setp.ne.b32 adds, %69, 0;\n"                                                               \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type                                \
      " "                                                                                         \
      "{%0, %1, %2, %3, %4, %5, %6, %7,"                                                          \
      " %8, %9, %10, %11, %12, %13, %14, %15,"                                                    \
      " %16, %17, %18, %19, %20, %21, %22, %23,"                                                  \
      " %24, %25, %26, %27, %28, %29, %30, %31,"                                                  \
      " %32, %33, %34, %35, %36, %37, %38, %39,"                                                  \
      " %40, %41, %42, %43, %44, %45, %46, %47,"                                                  \
      " %48, %49, %50, %51, %52, %53, %54, %55,"                                                  \
      " %56, %57, %58, %59, %60, %61, %62, %63}, "                                                \
      "{%64, %65, %66, %67}, %68, adds, 1, 1, 0;\n"                                               \
      "}"                                                                                         \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), \
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]),               \
        "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]),           \
        "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]),           \
        "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]),           \
        "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]),           \
        "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]),           \
        "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]),           \
        "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]),           \
        "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]),           \
        "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]),           \
        "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]),           \
        "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63])                                            \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))

#define GPTQB_WGMMA_256(type)                                                                     \
  asm volatile(                                                                                   \
      "{\n"                                                                                       \
      ".reg .pred adds;\n"                                                                        \
      "setp.ne.b32 adds, %133, 0;\n"                                                              \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type                                \
      " "                                                                                         \
      "{%0, %1, %2, %3, %4, %5, %6, %7,"                                                          \
      " %8, %9, %10, %11, %12, %13, %14, %15,"                                                    \
      " %16, %17, %18, %19, %20, %21, %22, %23,"                                                  \
      " %24, %25, %26, %27, %28, %29, %30, %31,"                                                  \
      " %32, %33, %34, %35, %36, %37, %38, %39,"                                                  \
      " %40, %41, %42, %43, %44, %45, %46, %47,"                                                  \
      " %48, %49, %50, %51, %52, %53, %54, %55,"                                                  \
      " %56, %57, %58, %59, %60, %61, %62, %63,"                                                  \
      " %64, %65, %66, %67, %68, %69, %70, %71,"                                                  \
      " %72, %73, %74, %75, %76, %77, %78, %79,"                                                  \
      " %80, %81, %82, %83, %84, %85, %86, %87,"                                                  \
      " %88, %89, %90, %91, %92, %93, %94, %95,"                                                  \
      " %96, %97, %98, %99, %100, %101, %102, %103,"                                              \
      " %104, %105, %106, %107, %108, %109, %110, %111,"                                          \
      " %112, %113, %114, %115, %116, %117, %118, %119,"                                          \
      " %120, %121, %122, %123, %124, %125, %126, %127}, "                                        \
      "{%128, %129, %130, %131}, %132, adds, 1, 1, 0;\n"                                          \
      "}"                                                                                         \
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), \
        "+f"(sums[6]), "+f"(sums[7]), "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]),               \
        "+f"(sums[11]), "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15]),           \
        "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), "+f"(sums[20]),           \
        "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23]), "+f"(sums[24]), "+f"(sums[25]),           \
        "+f"(sums[26]), "+f"(sums[27]), "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]),           \
        "+f"(sums[31]), "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]),           \
        "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39]), "+f"(sums[40]),           \
        "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), "+f"(sums[44]), "+f"(sums[45]),           \
        "+f"(sums[46]), "+f"(sums[47]), "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]),           \
        "+f"(sums[51]), "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55]),           \
        "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), "+f"(sums[60]),           \
        "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63]), "+f"(sums[64]), "+f"(sums[65]),           \
        "+f"(sums[66]), "+f"(sums[67]), "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]),           \
        "+f"(sums[71]), "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]),           \
        "+f"(sums[76]), "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79]), "+f"(sums[80]),           \
        "+f"(sums[81]), "+f"(sums[82]), "+f"(sums[83]), "+f"(sums[84]), "+f"(sums[85]),           \
        "+f"(sums[86]), "+f"(sums[87]), "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]),           \
        "+f"(sums[91]), "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95]),           \
        "+f"(sums[96]), "+f"(sums[97]), "+f"(sums[98]), "+f"(sums[99]), "+f"(sums[100]),          \
        "+f"(sums[101]), "+f"(sums[102]), "+f"(sums[103]), "+f"(sums[104]), "+f"(sums[105]),      \
        "+f"(sums[106]), "+f"(sums[107]), "+f"(sums[108]), "+f"(sums[109]), "+f"(sums[110]),      \
        "+f"(sums[111]), "+f"(sums[112]), "+f"(sums[113]), "+f"(sums[114]), "+f"(sums[115]),      \
        "+f"(sums[116]), "+f"(sums[117]), "+f"(sums[118]), "+f"(sums[119]), "+f"(sums[120]),      \
        "+f"(sums[121]), "+f"(sums[122]), "+f"(sums[123]), "+f"(sums[124]), "+f"(sums[125]),      \
        "+f"(sums[126]), "+f"(sums[127])                                                          \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds))

// A warpgroup's thread t holds sums[4 j + 2 h + k] of row t / 32 * 16 + t % 32 / 4 + 8 h, column 8
// j + t % 4 * 2 + k. `adds` 0: the sums so far are dropped.
template <bool kFloat16, int kColumns>
__device__ inline void multiply_rows(float (&sums)[kColumns / 2], const uint32_t (&a)[4],
                                     uint64_t b, int32_t adds) {
  if constexpr (kColumns == 16) {
    if constexpr (kFloat16)
      GPTQB_WGMMA_16("f16");
    else
      GPTQB_WGMMA_16("bf16");
  } else if constexpr (kColumns == 32) {
    if constexpr (kFloat16)
      GPTQB_WGMMA_32("f16");
    else
      GPTQB_WGMMA_32("bf16");
  } else if constexpr (kColumns == 64) {
    if constexpr (kFloat16)
      GPTQB_WGMMA_64("f16");
    else
      GPTQB_WGMMA_64("bf16");
  } else if constexpr (kColumns == 128) {
    if constexpr (kFloat16)
      GPTQB_WGMMA_128("f16");
    else
      GPTQB_WGMMA_128("bf16");
  } else {
    if constexpr (kFloat16)
      GPTQB_WGMMA_256("f16");
    else
      GPTQB_WGMMA_256("bf16");
  }
}
#undef GPTQB_WGMMA_16
#undef GPTQB_WGMMA_32
#undef GPTQB_WGMMA_64
#undef GPTQB_WGMMA_128
#undef GPTQB_WGMMA_256

}  // namespace gptqb::kernels::hopper
#endif  // GPTQB_HOPPER
