#include "runner/device_warmup.h"

#include <c10/core/InferenceMode.h>

namespace gptqb {

void warm_up(at::Device device) {
  if (!device.is_cuda()) return;
  const c10::InferenceMode inference;
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  const auto matrix = at::randn({256, 256}, options);
  const auto half = matrix.to(at::kHalf);
  at::linear(half, half);
  at::mm(half, half, at::kFloat);
  const auto heads = half.view({1, 2, 256, 128});
  at::scaled_dot_product_attention(heads, heads, heads, {}, 0.0, /*is_causal=*/true);
  const auto product = at::addmm(at::eye(256, options), matrix, matrix.t());
  const auto factor = std::get<0>(at::linalg_cholesky_ex(product));
  at::linalg_solve_triangular(factor, matrix, /*upper=*/false);
  at::argsort(product.diagonal(), /*stable=*/true).max().item<int64_t>();
}

}  // namespace gptqb
