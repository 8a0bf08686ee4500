#include "methods/unit_inverse.h"

#include "kernels/unit_inverse.h"
#include "methods/device_stream.h"

namespace gptqb {

at::Tensor invert_unit_blocks(const at::Tensor& triangle, const std::vector<int64_t>& begins,
                              int64_t size) {
  const auto count = static_cast<int64_t>(begins.size());
  if (triangle.is_cuda() && triangle.scalar_type() == at::kFloat && triangle.stride(1) == 1 &&
      size <= kernels::UnitInverse::kMaxSize) {
    const auto inverse = at::empty({count, size, size}, triangle.options());
    const auto places = at::tensor(begins, at::kLong).to(triangle.device());
    const DeviceStream stream(triangle.device());
    kernels::invert_unit_cuda({.factor = triangle.const_data_ptr<float>(),
                               .factor_stride = triangle.stride(0),
                               .begins = places.const_data_ptr<int64_t>(),
                               .count = count,
                               .size = size,
                               .inverse = inverse.mutable_data_ptr<float>()},
                              stream.handle());
    return inverse;
  }
  std::vector<at::Tensor> blocks;
  for (const int64_t begin : begins)
    blocks.push_back(triangle.slice(0, begin, begin + size).slice(1, begin, begin + size).t());
  return at::linalg_solve_triangular(at::stack(blocks), at::eye(size, triangle.options()),
                                     /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
}

}  // namespace gptqb
