// What Hopper adds to CUDA C++, one instruction each: barriers that count bytes, copies of tiles,
// and products that read shared memory (PTX ISA 8.0, sections on mbarrier, cp.async.bulk.tensor and
// wgmma). Tiles are boxes of 64 values of 16 bits by a number of rows, 128-byte rows swizzled.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/device/sum_operands.cuh"

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

// Makes barriers known to the copy engine. Before the first sync_cluster, or __syncthreads where a
// block is alone.
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

// Four numbers at the same place of the shared memory of another block of the cluster, or of this
// one.
__device__ inline float4 load_in(const float4* place, uint32_t block) {
  float4 four;
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
      "}"
      : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w)
      : "r"(shared_address(place)), "r"(block)
      : "memory");
  return four;
}

// --- copies ---

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

// The same of an array of three dimensions; indices from the innermost.
__device__ inline void copy_box(void* to, const CUtensorMap& map, uint64_t* barrier, int first,
                                int second, int third) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, "
      "%4, %5}], [%2];" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<uint64_t>(&map)), "r"(shared_address(barrier)), "r"(first), "r"(second),
      "r"(third)
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

#define GPTQB_WGMMA_256(type)                                                            \
  asm volatile(                                                                          \
      "{\n"                                                                              \
      ".reg .pred adds;\n"                                                               \
      "setp.ne.b32 adds, %130, 0;\n"                                                     \
      "wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" GPTQB_PLACES_128 \
      "}, %128, %129, adds, 1, 1, 1, 1;\n"                                               \
      "}"                                                                                \
      : GPTQB_SUMS_128(0)                                                                \
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
