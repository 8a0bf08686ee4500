#include "methods/second_moments_gpu.h"

#include <ATen/Context.h>

#include <algorithm>

namespace gptqb {
namespace {

// Keeps partial sums of products in float32 while it lives, whatever way cuBLAS splits them.
class SumInFloat32 {
 public:
  SumInFloat32() { allow_reduced(false); }
  ~SumInFloat32() { allow_reduced(true); }  // ATen's default
  SumInFloat32(const SumInFloat32&) = delete;
  SumInFloat32& operator=(const SumInFloat32&) = delete;

 private:
  static void allow_reduced(bool allow) {
    at::globalContext().setAllowFP16ReductionCuBLAS(allow);
    at::globalContext().setAllowBF16ReductionCuBLAS(allow);
  }
};

// Columns of a panel: wide enough for a product to fill the GPU, narrow enough that little below
// the diagonal is computed.
int64_t panel_columns(int64_t in_features) {
  return std::max<int64_t>(512, in_features / 8 / 128 * 128);
}

}  // namespace

int64_t tokens_per_sum(int64_t in_features) { return in_features <= 2048 ? 256 : 2048; }

void add_second_moments_gpu(at::Tensor& sum, const at::Tensor& x, int64_t tokens) {
  const SumInFloat32 exact;
  const int64_t n = x.size(1);
  const int64_t panel = panel_columns(n);
  for (int64_t first = 0; first < x.size(0); first += tokens) {
    const auto part = x.narrow(0, first, std::min(tokens, x.size(0) - first));
    for (int64_t begin = 0; begin < n; begin += panel) {
      const int64_t width = std::min(panel, n - begin);
      auto target = sum.narrow(0, begin, width).narrow(1, begin, n - begin);
      at::addmm_out(target, target, part.narrow(1, begin, width).t(),
                    part.narrow(1, begin, n - begin), at::kFloat);
    }
  }
}

}  // namespace gptqb
