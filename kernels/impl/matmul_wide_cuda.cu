#include "kernels/by_format.h"
#include "kernels/cuda_check.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/hopper_build.h"
#include "kernels/launch_early.h"
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

// y = the splits of a tile added up. Block (i, j): rows of tile i / cluster, token j of it.
template <class T>
__global__ void __launch_bounds__(WidePlan::kRows) add_splits_kernel(WideLaunch launch) {
  const MatmulArguments& arguments = launch.arguments;
  const WidePlan& plan = launch.plan;
  let_next_begin();
  wait_for_earlier_kernels();
  const int number = static_cast<int>(blockIdx.x) / plan.cluster;
  const int block = static_cast<int>(blockIdx.x) % plan.cluster;
  const WideTile tile = wide_tile(plan, static_cast<int>(plan.whole) + number);
  const int64_t rows = arguments.weight.shape.rows;
  const int64_t row =
      (static_cast<int64_t>(tile.row_tile) * plan.cluster + block) * WidePlan::kRows + threadIdx.x;
  if (row >= rows) return;
  const float bias =
      arguments.bias == nullptr ? 0 : widen(static_cast<const T*>(arguments.bias)[row]);
  const int64_t part = static_cast<int64_t>(plan.tokens) * WidePlan::kRows;  // of a block and split
  const auto* const sums =
      reinterpret_cast<const float*>(scratch_of(arguments) + plan.gathered_bytes) +
      (number * plan.splits * plan.cluster + block) * part + threadIdx.x;
  const int64_t tokens = min(arguments.m - static_cast<int64_t>(tile.token_tile) * plan.tokens,
                             static_cast<int64_t>(plan.tokens));
  const int64_t token = blockIdx.y;
  if (token >= tokens) return;
  float sum = 0;
#pragma unroll 8
  for (int split = 0; split < plan.splits; ++split)
    sum += sums[split * plan.cluster * part + token * WidePlan::kRows];
  const int64_t to = (static_cast<int64_t>(tile.token_tile) * plan.tokens + token) * rows + row;
  static_cast<T*>(arguments.y)[to] = rounded<T>(sum + bias);
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
  const WidePlan& plan = launch.plan;
  launch_early(kernel,
               dim3(static_cast<unsigned>(plan.split_tiles() * plan.cluster),
                    static_cast<unsigned>(plan.tokens)),
               WidePlan::kRows, 0, /*early=*/true, static_cast<cudaStream_t>(stream), launch);
}

std::unique_ptr<MatmulKernel> make_cuda_wide() { return std::make_unique<WideCuda>(); }

}  // namespace gptqb::kernels
