#include "kernels/by_format.h"
#include "kernels/cuda_check.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/hopper_build.h"
#include "kernels/launch_early.h"
#include "kernels/matmul.h"
#include "kernels/matmul_limits.h"
#include "kernels/matmul_strips.h"

namespace gptqb::kernels {
namespace {

constexpr std::string_view kName = "cuda_strips";
constexpr int kThreads = 512;
constexpr int kColumnsOfBlock = 2048;

// By which power of two a token's bfloat16 activations are divided.
__device__ int exponent_of(const __nv_bfloat16* x, int64_t columns) {
  __shared__ int largest_of_warp[kThreads / 32];
  int largest = 0;
  const bool vectors = columns % kVector == 0;
  for (int64_t i = threadIdx.x; vectors && i < columns / kVector; i += kThreads) {
    const auto eight = load<__nv_bfloat16>(x, i);
#pragma unroll
    for (const auto& value : eight.value)
      largest = max(largest, __bfloat16_as_ushort(value) & 0x7FFF);
  }
  for (int64_t i = threadIdx.x; !vectors && i < columns; i += kThreads)
    largest = max(largest, __bfloat16_as_ushort(x[i]) & 0x7FFF);
  largest = __reduce_max_sync(0xFFFFFFFFU, largest);
  if (threadIdx.x % 32 == 0) largest_of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
  for (const int other : largest_of_warp) largest = max(largest, other);
  return exponent_below(largest);
}

// Block (i, token): columns 2048 i .. of one token.
__global__ void __launch_bounds__(kThreads) prepare_inputs_kernel(StripsLaunch launch) {
  const MatmulArguments& arguments = launch.arguments;
  const PackedShape& shape = arguments.weight.shape;
  const int32_t* const order = arguments.weight.input_order;
  const int64_t token = blockIdx.y;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kColumnsOfBlock;
  const int64_t end = min(first + kColumnsOfBlock, shape.packed_columns);
  char* const scratch = scratch_of(arguments);
  auto* const out =
      reinterpret_cast<__half*>(scratch + launch.plan.inputs_at) + token * shape.packed_columns;
  let_next_begin();
  wait_for_earlier_kernels();
  const auto from = [&](int64_t column) {
    const int64_t at = order == nullptr ? column : order[column];
    return at < shape.columns ? at : int64_t{-1};
  };
  if (arguments.type == HalfType::kFloat16) {
    const auto* const x = static_cast<const __half*>(arguments.x) + token * shape.columns;
    for (int64_t column = first + threadIdx.x; column < end; column += kThreads) {
      const int64_t at = from(column);
      out[column] = at < 0 ? __half(0) : x[at];
    }
    return;
  }
  const auto* const x = static_cast<const __nv_bfloat16*>(arguments.x) + token * shape.columns;
  const int exponent = exponent_of(x, shape.columns);
  for (int64_t column = first + threadIdx.x; column < end; column += kThreads) {
    const int64_t at = from(column);
    out[column] = at < 0 ? __half(0) : __float2half_rn(scalbnf(widen(x[at]), -exponent));
  }
  if (blockIdx.x == 0 && threadIdx.x == 0)
    reinterpret_cast<float*>(scratch)[token] = scalbnf(1.F, exponent);
}

class StripsCuda : public LimitedKernel {
 public:
  StripsCuda() : LimitedKernel(kName) {}

  int64_t workspace_bytes(const PackedShape& weight, int64_t m,
                          const MatmulDevice& device) const override {
    // Where type matters it is bfloat16 that needs the more.
    return plan_strips(weight, m, HalfType::kBFloat16, device.multiprocessors, device.shared_bytes)
        .workspace_bytes;
  }

  void launch(const MatmulArguments& arguments, void* stream) const override {
    check_alignment(arguments);
    require_hopper_build(kName);
    const StripsLaunch launch{arguments,
                              plan_strips(arguments.weight.shape, arguments.m, arguments.type,
                                          cuda_attribute(cudaDevAttrMultiProcessorCount),
                                          cuda_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))};
    if (launch.plan.stages < 1)
      throw Error("kernel cuda_strips", "expected more shared memory than this device has");
    by_bits(arguments.weight.shape.bits,
            [&](auto bits) { launch_strips<decltype(bits)::value>(launch, stream); });
  }
};

}  // namespace

void prepare_inputs_cuda(const StripsLaunch& launch, void* stream) {
  const int64_t parts =
      (launch.arguments.weight.shape.packed_columns + kColumnsOfBlock - 1) / kColumnsOfBlock;
  launch_early(prepare_inputs_kernel,
               dim3(static_cast<unsigned>(parts), static_cast<unsigned>(launch.arguments.m)),
               kThreads, 0, /*early=*/true, static_cast<cudaStream_t>(stream), launch);
}

std::unique_ptr<MatmulKernel> make_cuda_strips() { return std::make_unique<StripsCuda>(); }

}  // namespace gptqb::kernels
