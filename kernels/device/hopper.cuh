// What Hopper adds to CUDA C++, one instruction each: barriers that count bytes, copies of tiles,
// and products that read shared memory (PTX ISA 8.0, sections on mbarrier, cp.async.bulk.tensor and
// wgmma). Tiles are boxes of 64 values of 16 bits by a number of rows, 128-byte rows swizzled.
#pragma once

#include <cuda.h>

#include <cstdint>

// Device code for Hopper stands behind this: other architectures cannot assemble it.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define GPTQB_HOPPER
#endif

#ifdef GPTQB_HOPPER
namespace gptqb::kernels::hopper {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- barriers ---

__device__ inline void init_barrier(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}

// Makes barriers known to the copy engine. Before the first sync_cluster.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}

// At the same barrier of another block of the cluster, or of this one.
__device__ inline void arrive_in(uint64_t* barrier, uint32_t block) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(block)
      : "memory");
}

// Arrives, and lets the barrier wait for `bytes` that copies will bring.
__device__ inline void arrive_expecting(uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}

// Returns when the phase of this parity is over.
__device__ inline void wait(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra over;\n"
      "bra again;\n"
      "over:\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// All threads of all blocks of the cluster.
__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// --- copies ---

// Copies `bytes`, a multiple of 16, to shared memory, both 16-byte aligned.
__device__ inline void copy_bytes(void* to, const void* from, uint32_t bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// Copies the box of `map` that starts at (column, row) to shared memory; what lies outside the
// matrix becomes zero. `barrier` counts its bytes.
__device__ inline void copy_box(void* to, const CUtensorMap& map, uint64_t* barrier, int column,
                                int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4}], [%2];" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(shared_address(barrier)), "r"(column), "r"(row)
      : "memory");
}

// The same to every block of the cluster whose bit is set in `blocks`, at the same place in its
// shared memory; the barriers at the same place count.
__device__ inline void copy_box_to(uint16_t blocks, void* to, const CUtensorMap& map,
                                   uint64_t* barrier, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::"
      "cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(shared_address(barrier)), "r"(column), "r"(row),
      "h"(blocks)
      : "memory");
}

// --- products ---

// Describes boxes whose rows are the summed index: 64 values of the other index a row, boxes
// `box_bytes` apart where the product takes more of them.
__device__ inline uint64_t describe_transposed(const void* box, uint32_t box_bytes) {
  constexpr uint64_t kEightRows = 8 * 128;
  constexpr uint64_t kSwizzle128 = 1;
  return static_cast<uint64_t>((shared_address(box) & 0x3FFFFU) >> 4) |
         static_cast<uint64_t>(box_bytes >> 4) << 16 | (kEightRows >> 4) << 32 | kSwizzle128 << 62;
}

// The same boxes, `rows` (a multiple of 8) further down.
__device__ inline uint64_t rows_below(uint64_t description, int rows) {
  return description + static_cast<uint64_t>(rows * 128 >> 4);
}

__device__ inline void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until all but the last `kPending` committed groups are done.
template <int kPending>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define GPTQB_WGMMA_256(type)                                                                     \
  asm volatile(                                                                                   \
      "{\n"                                                                                       \
      ".reg .pred adds;\n"                                                                        \
      "setp.ne.b32 adds, %130, 0;\n"                                                              \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type                                \
      " {%0, %1, %2, %3, %4, %5, %6, %7,"                                                         \
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
      " %120, %121, %122, %123, %124, %125, %126, %127}"                                          \
      ", %128, %129, adds, 1, 1, 1, 1;\n"                                                         \
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
      : "l"(a), "l"(b), "r"(adds))

// sums (+)= a^T b over 16 rows of both: a of 64 columns, b of 256. A warpgroup's thread t holds
// sums[4 j + 2 h + k] of row t / 32 * 16 + t % 32 / 4 + 8 h, column 8 j + t % 4 * 2 + k.
template <bool kFloat16>
__device__ inline void multiply_64x256_transposed(float (&sums)[128], uint64_t a, uint64_t b,
                                                  int32_t adds) {
  if constexpr (kFloat16)
    GPTQB_WGMMA_256("f16");
  else
    GPTQB_WGMMA_256("bf16");
}
#undef GPTQB_WGMMA_256

// --- registers ---

template <int kCount>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace gptqb::kernels::hopper
#endif  // GPTQB_HOPPER
