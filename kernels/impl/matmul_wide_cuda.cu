#include "kernels/by_format.h"
#include "kernels/cuda_check.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/hopper_build.h"
#include "kernels/matmul.h"
#include "kernels/matmul_limits.h"
#include "kernels/matmul_wide.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr std::string_view kName = "cuda_wide";
constexpr int kThreads = 256;

// A thread takes one packed column of all tokens.
__global__ void __launch_bounds__(kThreads) gather_inputs_kernel(WideLaunch launch) {
  const MatmulArguments& arguments = launch.arguments;
  const PackedShape& shape = arguments.weight.shape;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= shape.packed_columns) return;
  const int32_t* const order = arguments.weight.input_order;
  const int64_t from = order == nullptr ? column : order[column];
  const bool real = from >= 0 && from < shape.columns;
  const auto* const x = static_cast<const uint16_t*>(arguments.x);
  auto* const out = reinterpret_cast<uint16_t*>(scratch_of(arguments));
  for (int64_t token = blockIdx.y; token < arguments.m; token += gridDim.y)
    out[token * shape.packed_columns + column] =
        real ? x[token * shape.columns + from] : uint16_t{0};
}

template <class T>
__global__ void __launch_bounds__(kThreads) add_splits_kernel(WideLaunch launch) {
  const MatmulArguments& arguments = launch.arguments;
  const PackedShape& shape = arguments.weight.shape;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (row >= shape.rows) return;
  const auto* const sums =
      reinterpret_cast<const float*>(scratch_of(arguments) + launch.plan.gathered_bytes);
  const int64_t split = arguments.m * shape.packed_rows;
  for (int64_t token = blockIdx.y; token < arguments.m; token += gridDim.y) {
    float sum = 0;
    for (int64_t i = 0; i < launch.plan.splits; ++i)
      sum += sums[i * split + token * shape.packed_rows + row];
    if (arguments.bias != nullptr) sum += widen(static_cast<const T*>(arguments.bias)[row]);
    static_cast<T*>(arguments.y)[token * shape.rows + row] = rounded<T>(sum);
  }
}

dim3 grid_of(int64_t columns, int64_t tokens) {
  constexpr int64_t kMostTokens = 1024;
  return {static_cast<unsigned>((columns + kThreads - 1) / kThreads),
          static_cast<unsigned>(tokens < kMostTokens ? tokens : kMostTokens)};
}

class WideCuda : public LimitedKernel {
 public:
  WideCuda() : LimitedKernel(kName) {}

  int64_t workspace_bytes(const PackedShape& weight, int64_t m,
                          const MatmulDevice& device) const override {
    return wide_workspace_bytes(weight, m, device.multiprocessors);
  }

  void launch(const MatmulArguments& arguments, void* stream) const override {
    check_alignment(arguments);
    require_hopper_build(kName);
    const WideLaunch launch{arguments,
                            plan_wide(arguments.weight.shape, arguments.m,
                                      cuda_attribute(cudaDevAttrMultiProcessorCount),
                                      cuda_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))};
    by_bits(arguments.weight.shape.bits,
            [&](auto bits) { launch_wide<decltype(bits)::value>(launch, stream); });
  }
};

}  // namespace

void gather_inputs_cuda(const WideLaunch& launch, void* stream) {
  gather_inputs_kernel<<<grid_of(launch.arguments.weight.shape.packed_columns, launch.arguments.m),
                         kThreads, 0, static_cast<cudaStream_t>(stream)>>>(launch);
  GPTQB_CUDA_LAUNCHED("gather_inputs_kernel");
}

void add_wide_splits_cuda(const WideLaunch& launch, void* stream) {
  const auto kernel = launch.arguments.type == HalfType::kFloat16
                          ? add_splits_kernel<__half>
                          : add_splits_kernel<__nv_bfloat16>;
  kernel<<<grid_of(launch.arguments.weight.shape.rows, launch.arguments.m), kThreads, 0,
           static_cast<cudaStream_t>(stream)>>>(launch);
  GPTQB_CUDA_LAUNCHED("add_splits_kernel");
}

std::unique_ptr<MatmulKernel> make_cuda_wide() { return std::make_unique<WideCuda>(); }

}  // namespace gptqb::kernels
