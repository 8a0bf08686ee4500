// A warp holds a row, four columns a thread; U lies in shared memory. Columns go one after another,
// and many rows a multiprocessor hide that each waits for the one before.
#include "kernels/cuda_check.h"
#include "kernels/device/rounding.cuh"
#include "kernels/published_block.h"

namespace gptqb::kernels {
namespace {

constexpr int kColumns = static_cast<int>(PublishedBlock::kMaxColumns);
constexpr int kOwned = kColumns / 32;  // columns of a thread
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kSharedBytes = kColumns * kColumns * static_cast<int>(sizeof(float));

// What a thread knows of its columns.
struct Owned {
  float value[kOwned], scale[kOwned], zero[kOwned], pivot[kOwned], code[kOwned], error[kOwned];
};

__global__ void __launch_bounds__(kThreads) published_block_kernel(PublishedBlock block) {
  extern __shared__ __align__(16) float factor[];  // 0 beyond the block
  for (int k = static_cast<int>(threadIdx.x); k < kColumns * kColumns; k += kThreads) {
    const int i = k / kColumns, j = k % kColumns;
    factor[k] = i <= j && j < block.columns ? block.factor[i * block.factor_stride + j] : 0;
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= block.rows) return;

  Owned own;
#pragma unroll
  for (int k = 0; k < kOwned; ++k) {
    const int column = lane * kOwned + k;
    const bool real = column < block.columns;
    const int64_t grid = real ? row * block.groups + block.group_of_column[column] : 0;
    own.value[k] = real ? block.weights[row * block.weights_stride + column] : 0;
    own.scale[k] = real ? block.scales[grid] : 1;
    own.zero[k] = real ? block.zeros[grid] : 0;
    own.pivot[k] = real ? factor[column * kColumns + column] : 1;
    own.code[k] = own.error[k] = 0;
  }
  double loss = block.losses[row];
  for (int owner = 0; owner * kOwned < block.columns; ++owner) {
#pragma unroll
    for (int k = 0; k < kOwned; ++k) {
      const int column = owner * kOwned + k;
      if (column >= block.columns) break;
      // Every thread rounds its own column; one of them is the column in turn.
      float code = __fadd_rn(round_half_even(divide(own.value[k], own.scale[k])), own.zero[k]);
      code = code < 0 ? 0 : code;
      code = code > block.max_code ? block.max_code : code;
      const float quantized = __fmul_rn(__fsub_rn(code, own.zero[k]), own.scale[k]);
      const float mine = divide(__fsub_rn(own.value[k], quantized), own.pivot[k]);
      if (lane == owner) {
        own.code[k] = code;
        own.error[k] = mine;
      }
      const float error = __shfl_sync(0xffffffffU, mine, owner);
      loss = __dadd_rn(loss, __dmul_rn(0.5, __dmul_rn(error, error)));
      const auto u = reinterpret_cast<const float4*>(factor + column * kColumns)[lane];
      own.value[0] = __fsub_rn(own.value[0], __fmul_rn(error, u.x));
      own.value[1] = __fsub_rn(own.value[1], __fmul_rn(error, u.y));
      own.value[2] = __fsub_rn(own.value[2], __fmul_rn(error, u.z));
      own.value[3] = __fsub_rn(own.value[3], __fmul_rn(error, u.w));
    }
  }
#pragma unroll
  for (int k = 0; k < kOwned; ++k) {
    const int column = lane * kOwned + k;
    if (column >= block.columns) continue;
    block.codes[row * block.codes_stride + column] = own.code[k];
    block.errors[row * block.columns + column] = own.error[k];
  }
  if (lane == 0) block.losses[row] = loss;
}

}  // namespace

void published_block_cuda(const PublishedBlock& block, void* stream) {
  if (block.rows == 0) return;
  GPTQB_CUDA(cudaFuncSetAttribute(published_block_kernel,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
  const auto blocks = static_cast<unsigned>((block.rows + kWarps - 1) / kWarps);
  published_block_kernel<<<blocks, kThreads, kSharedBytes, static_cast<cudaStream_t>(stream)>>>(
      block);
  GPTQB_CUDA_LAUNCHED("published_block_kernel");
}

}  // namespace gptqb::kernels
