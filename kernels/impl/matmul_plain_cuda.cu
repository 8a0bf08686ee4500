// The product as it is defined, element by element: one warp an output, lane l takes columns l, l +
// 32, ... in order, and the lanes' float32 sums are added in a fixed tree.
#include <algorithm>

#include "kernels/cuda_check.h"
#include "kernels/device/half_vector.cuh"
#include "kernels/matmul.h"
#include "kernels/matmul_limits.h"
#include "kernels/tile_position.h"

namespace gptqb::kernels {
namespace {

constexpr std::string_view kName = "cuda_plain";
constexpr int kWarps = 8;

__device__ float weight_at(const PackedView& weight, int64_t row, int64_t column) {
  const PackedShape& shape = weight.shape;
  const int64_t at = tiles_scale_at(shape, row, column);
  const int64_t zero = shape.symmetric ? int64_t{1} << (shape.bits - 1) : weight.zeros[at];
  const int64_t code = tiles_code(shape, weight.codes, row, column);
  return __half2float(__ushort_as_half(weight.scales[at])) * static_cast<float>(code - zero);
}

template <class T>
__global__ void __launch_bounds__(32 * kWarps) matmul_plain_kernel(MatmulArguments arguments) {
  const PackedView& weight = arguments.weight;
  const PackedShape& shape = weight.shape;
  const auto* const x = static_cast<const T*>(arguments.x);
  const auto* const bias = static_cast<const T*>(arguments.bias);
  auto* const y = static_cast<T*>(arguments.y);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * kWarps;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  for (int64_t output = first; output < arguments.m * shape.rows; output += warps) {
    const int64_t token = output / shape.rows;
    const int64_t row = output % shape.rows;
    float sum = 0;
    for (int64_t column = lane; column < shape.packed_columns; column += 32) {
      const int64_t input = shape.ordered ? weight.input_order[column] : column;
      if (input < 0 || input >= shape.columns) continue;
      sum = __fmaf_rn(weight_at(weight, row, column), widen(x[token * shape.columns + input]), sum);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
      sum = __fadd_rn(sum, __shfl_down_sync(0xffffffffU, sum, offset));
    if (lane != 0) continue;
    if (bias != nullptr) sum = __fadd_rn(sum, widen(bias[row]));
    y[output] = rounded<T>(sum);
  }
}

class PlainCuda : public LimitedKernel {
 public:
  PlainCuda() : LimitedKernel(kName) {}

  void launch(const MatmulArguments& arguments, void* stream) const override {
    constexpr int64_t kMostBlocks = 1 << 20;
    const int64_t outputs = arguments.m * arguments.weight.shape.rows;
    const auto blocks =
        static_cast<unsigned>(std::min((outputs + kWarps - 1) / kWarps, kMostBlocks));
    const auto kernel = arguments.type == HalfType::kFloat16 ? matmul_plain_kernel<__half>
                                                             : matmul_plain_kernel<__nv_bfloat16>;
    kernel<<<blocks, 32 * kWarps, 0, static_cast<cudaStream_t>(stream)>>>(arguments);
    GPTQB_CUDA_LAUNCHED("matmul_plain_kernel");
  }
};

}  // namespace

std::unique_ptr<MatmulKernel> make_cuda_plain() { return std::make_unique<PlainCuda>(); }

}  // namespace gptqb::kernels
