#include "models/forward_ops.h"

#include <cstdint>
#include <initializer_list>

#include "kernels/forward.h"
#include "methods/device_stream.h"

namespace gptqb {
namespace {

using kernels::HalfType;
using kernels::kHalfVector;

HalfType half_type(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kHalf ? HalfType::kFloat16 : HalfType::kBFloat16;
}

bool aligned(const at::Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % (2 * kHalfVector) == 0;
}

// Whether a kernel takes `x` with vectors of `width` values, and `others` beside it.
bool fits_kernel(const at::Tensor& x, int64_t width, std::initializer_list<at::Tensor> others) {
  if (!x.is_cuda() || !x.is_contiguous() || !aligned(x) || x.numel() == 0 ||
      width % kHalfVector != 0)
    return false;
  if (x.scalar_type() != at::kHalf && x.scalar_type() != at::kBFloat16) return false;
  for (const auto& other : others)
    if (!other.is_contiguous() || !aligned(other) || other.scalar_type() != x.scalar_type())
      return false;
  return true;
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& scale, double epsilon) {
  using kernels::RmsNorm;
  const int64_t width = x.size(-1);
  const int64_t rows = x.numel() / width;
  if (!fits_kernel(x, width, {scale}) || rows < RmsNorm::kMinRows || width < RmsNorm::kMinColumns) {
    const auto squares = x.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).square_();
    const auto inverse = squares.mean(-1, true).add_(epsilon).rsqrt_();
    return x.to(at::kFloat).mul(inverse).to(x.scalar_type()).mul_(scale);
  }
  at::Tensor out = at::empty_like(x);
  const DeviceStream stream(x.device());
  kernels::rms_norm_cuda({.type = half_type(x),
                          .rows = rows,
                          .columns = width,
                          .epsilon = static_cast<float>(epsilon),
                          .x = x.const_data_ptr(),
                          .scale = scale.const_data_ptr(),
                          .out = out.mutable_data_ptr()},
                         stream.handle());
  return out;
}

at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines) {
  const int64_t half = x.size(3) / 2;
  at::Tensor rotated = at::empty_like(x, at::MemoryFormat::Contiguous);
  if (fits_kernel(x, half, {cosines, sines})) {
    const DeviceStream stream(x.device());
    kernels::rotate_cuda({.type = half_type(x),
                          .tokens = x.size(0) * x.size(1),
                          .seqlen = x.size(1),
                          .heads = x.size(2),
                          .half = half,
                          .x = x.const_data_ptr(),
                          .cosines = cosines.const_data_ptr(),
                          .sines = sines.const_data_ptr(),
                          .out = rotated.mutable_data_ptr()},
                         stream.handle());
    return rotated;
  }
  const at::Tensor cos = cosines.unsqueeze(1);  // [seqlen, 1, half]
  const at::Tensor sin = sines.unsqueeze(1);
  const at::Tensor low = x.narrow(3, 0, half);
  const at::Tensor high = x.narrow(3, half, half);
  at::Tensor low_out = rotated.narrow(3, 0, half);
  at::Tensor high_out = rotated.narrow(3, half, half);
  at::mul_out(low_out, low, cos).sub_(high * sin);
  at::mul_out(high_out, high, cos).add_(low * sin);
  return rotated;
}

void silu_multiply(at::Tensor& gate, const at::Tensor& up) {
  if (!fits_kernel(gate, gate.numel(), {up})) {
    at::silu_(gate).mul_(up);
    return;
  }
  const DeviceStream stream(gate.device());
  kernels::silu_multiply_cuda({.type = half_type(gate),
                               .count = gate.numel(),
                               .gate = gate.mutable_data_ptr(),
                               .up = up.const_data_ptr()},
                              stream.handle());
}

}  // namespace gptqb
