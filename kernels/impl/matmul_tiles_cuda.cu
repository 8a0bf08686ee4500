#include "kernels/by_format.h"
#include "kernels/cuda_check.h"
#include "kernels/matmul.h"
#include "kernels/matmul_limits.h"
#include "kernels/matmul_tiles.h"

namespace gptqb::kernels {
namespace {

constexpr std::string_view kName = "cuda_tiles";

class TilesCuda : public LimitedKernel {
 public:
  TilesCuda() : LimitedKernel(kName) {}

  // For one sum an output, where activations come in parts.
  int64_t workspace_bytes(const PackedShape& weight, int64_t m,
                          const MatmulDevice&) const override {
    return kMatmulFlagBytes + m * weight.packed_rows * static_cast<int64_t>(sizeof(float));
  }

  void launch(const MatmulArguments& arguments, void* stream) const override {
    check_alignment(arguments);
    const TilesLaunch launch{arguments,
                             plan_tiles(arguments.weight.shape, arguments.m,
                                        cuda_attribute(cudaDevAttrMultiProcessorCount),
                                        cuda_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))};
    if (!launch.plan.fits)
      throw Error("kernel cuda_tiles", "expected more shared memory than this device has");
    by_bits(arguments.weight.shape.bits,
            [&](auto bits) { launch_tiles<decltype(bits)::value>(launch, stream); });
  }
};

}  // namespace

std::unique_ptr<MatmulKernel> make_cuda_tiles() { return std::make_unique<TilesCuda>(); }

}  // namespace gptqb::kernels
