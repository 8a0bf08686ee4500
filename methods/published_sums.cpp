#include "methods/published_sums.h"

#include "kernels/published_sums.h"
#include "methods/device_stream.h"
#include "methods/half_type.h"

namespace gptqb {

at::Tensor published_inputs(const at::Tensor& x, double factor) {
  const bool half = x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16;
  if (!x.is_cuda() || !half || !x.is_contiguous() || x.size(1) % 8 != 0 ||
      reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 != 0)
    return x.t().to(at::kFloat).mul(factor);
  const auto scaled = at::empty(x.sizes(), x.options().dtype(at::kFloat));
  const DeviceStream stream(x.device());
  kernels::scale_inputs_cuda({.type = half_type(x),
                              .count = x.numel(),
                              .factor = static_cast<float>(factor),
                              .x = x.const_data_ptr(),
                              .out = scaled.mutable_data_ptr<float>()},
                             stream.handle());
  return scaled.t();
}

void add_published_product(at::Tensor& sum, double factor, const at::Tensor& product) {
  if (!sum.is_cuda() || sum.numel() % 4 != 0 || !product.is_contiguous()) {
    sum.mul_(factor).add_(product);
    return;
  }
  const DeviceStream stream(sum.device());
  kernels::add_to_running_sum_cuda({.count = sum.numel(),
                                    .factor = static_cast<float>(factor),
                                    .product = product.const_data_ptr<float>(),
                                    .sum = sum.mutable_data_ptr<float>()},
                                   stream.handle());
}

}  // namespace gptqb
