#include "kernels/cuda_check.h"
#include "kernels/matmul.h"
#include "kernels/matmul_limits.h"
#include "kernels/matmul_tiles.h"
#include "kernels/tile_layout.h"

namespace gptqb::kernels {
namespace {

constexpr std::string_view kName = "cuda_tiles";

int attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  GPTQB_CUDA(cudaGetDevice(&device));
  GPTQB_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

class TilesCuda : public MatmulKernel {
 public:
  std::string_view layout() const override { return matmul_limits(kName).layout; }
  std::string refusal(const MatmulProblem& problem, const MatmulDevice& device) const override {
    return matmul_refusal(kName, problem, device);
  }
  // For one sum an output, where activations come in parts.
  int64_t workspace_bytes(const MatmulProblem& problem, const MatmulDevice&) const override {
    const int64_t rows = (problem.n + kTileRows - 1) / kTileRows * kTileRows;
    return problem.m * rows * static_cast<int64_t>(sizeof(float));
  }

  void launch(const MatmulArguments& arguments, void* stream) const override {
    check_alignment(arguments);
    const int64_t capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                               attribute(cudaDevAttrComputeCapabilityMinor);
    const TilesLaunch launch{
        arguments,
        plan_tiles(arguments.weight.shape, arguments.m, attribute(cudaDevAttrMultiProcessorCount),
                   attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), capability)};
    switch (arguments.weight.shape.bits) {
      case 2:
        return launch_tiles<2>(launch, stream);
      case 3:
        return launch_tiles<3>(launch, stream);
      case 4:
        return launch_tiles<4>(launch, stream);
      default:
        return launch_tiles<8>(launch, stream);
    }
  }
};

}  // namespace

std::unique_ptr<MatmulKernel> make_cuda_tiles() { return std::make_unique<TilesCuda>(); }

}  // namespace gptqb::kernels
