#include "models/forward_ops.h"

#include <cstdint>
#include <initializer_list>
#include <limits>

#include "kernels/forward.h"
#include "methods/device_stream.h"
#include "methods/half_type.h"

namespace gptqb {
namespace {

using kernels::kHalfVector;

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

// Whether `gate` and `up` [rows, 1, columns] are rows of one matrix that kernels can read.
bool rows_fit_kernel(const at::Tensor& gate, const at::Tensor& up) {
  return gate.is_cuda() &&
         (gate.scalar_type() == at::kHalf || gate.scalar_type() == at::kBFloat16) &&
         up.scalar_type() == gate.scalar_type() && gate.dim() == 3 && gate.size(1) == 1 &&
         gate.strides() == up.strides() && gate.stride(2) == 1 && gate.size(2) % kHalfVector == 0 &&
         gate.stride(0) % kHalfVector == 0 && aligned(gate) && aligned(up);
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

at::Tensor silu_multiply(at::Tensor gate, const at::Tensor& up) {
  const int64_t columns = gate.size(-1);
  const int64_t rows = gate.numel() / columns;
  const bool dense = fits_kernel(gate, gate.numel(), {up});
  if (!dense && !rows_fit_kernel(gate, up)) return at::silu_(gate).mul_(up);
  at::Tensor out = dense ? gate : at::empty(gate.sizes(), gate.options());
  const DeviceStream stream(gate.device());
  kernels::silu_multiply_cuda({.type = half_type(gate),
                               .rows = dense ? 1 : rows,
                               .columns = dense ? gate.numel() : columns,
                               .stride = dense ? gate.numel() : gate.stride(0),
                               .gate = gate.const_data_ptr(),
                               .up = up.const_data_ptr(),
                               .out = out.mutable_data_ptr()},
                              stream.handle());
  return out;
}

void bloom_gelu(at::Tensor& x) {
  if (!fits_kernel(x, x.numel(), {})) {
    const at::Tensor inner = (0.044715 * x).mul_(x).add_(1);
    const at::Tensor gate = (0.79788456 * x).mul_(inner).tanh_().add_(1);
    x.mul_(0.5).mul_(gate);
    return;
  }
  const DeviceStream stream(x.device());
  kernels::bloom_gelu_cuda({.type = half_type(x), .count = x.numel(), .x = x.mutable_data_ptr()},
                           stream.handle());
}

void causal_softmax(at::Tensor& scores, int64_t first) {
  const int64_t rows = scores.size(1);
  const int64_t columns = scores.size(2);
  const bool half = scores.scalar_type() == at::kHalf || scores.scalar_type() == at::kBFloat16;
  if (!scores.is_cuda() || !half || !scores.is_contiguous() ||
      columns > kernels::CausalSoftmax::kMaxColumns) {
    const auto positions = at::TensorOptions(at::kLong).device(scores.device());
    const at::Tensor ahead = at::arange(columns, positions).unsqueeze(0) >
                             at::arange(first, first + rows, positions).unsqueeze(1);
    scores.masked_fill_(ahead, -std::numeric_limits<double>::infinity());
    scores.copy_(at::softmax(scores, -1, at::kFloat));
    return;
  }
  const DeviceStream stream(scores.device());
  kernels::causal_softmax_cuda({.type = half_type(scores),
                                .matrices = scores.size(0),
                                .rows = rows,
                                .columns = columns,
                                .first = first,
                                .scores = scores.mutable_data_ptr()},
                               stream.handle());
}

}  // namespace gptqb
