#include "methods/tf32.h"

#include <ATen/Context.h>

#include "kernels/tf32_split.h"
#include "methods/device_stream.h"

namespace gptqb {

AllowTf32::AllowTf32() : before_(at::globalContext().allowTF32CuBLAS()) {
  at::globalContext().setAllowTF32CuBLAS(true);
}

AllowTf32::~AllowTf32() { at::globalContext().setAllowTF32CuBLAS(before_); }

Tf32Halves split_for_tf32(const at::Tensor& values) {
  const Tf32Halves halves{at::empty(values.sizes(), values.options()),
                          at::empty(values.sizes(), values.options())};
  split_for_tf32(values.stride(-1) == 1 ? values : values.contiguous(), halves);
  return halves;
}

void split_for_tf32(const at::Tensor& values, const Tf32Halves& halves) {
  const DeviceStream stream(values.device());
  kernels::split_tf32_cuda({.values = values.const_data_ptr<float>(),
                            .rows = values.size(0),
                            .columns = values.size(1),
                            .stride = values.stride(0),
                            .high = halves.high.mutable_data_ptr<float>(),
                            .low = halves.low.mutable_data_ptr<float>()},
                           stream.handle());
}

at::Tensor dot_product(const at::Tensor& a, const at::Tensor& b) {
  const bool rows = a.stride(1) == 1 && b.stride(1) == 1;
  if (!a.is_cuda() || a.scalar_type() != at::kFloat || b.scalar_type() != at::kFloat || !rows)
    return (a * b).sum(at::kDouble);
  const auto partials = at::empty({kernels::DotProduct::kPartials}, a.options().dtype(at::kDouble));
  const DeviceStream stream(a.device());
  kernels::dot_product_cuda({.a = a.const_data_ptr<float>(),
                             .a_stride = a.stride(0),
                             .b = b.const_data_ptr<float>(),
                             .b_stride = b.stride(0),
                             .rows = a.size(0),
                             .columns = a.size(1),
                             .partials = partials.mutable_data_ptr<double>()},
                            stream.handle());
  return partials.sum();
}

}  // namespace gptqb
