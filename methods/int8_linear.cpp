#include "methods/int8_linear.h"

#include <vector>

namespace gptqb {
namespace {

constexpr double kLargestCode = 127;

// absmax / 127 along the last dimension, 1 for a vector of zeros.
at::Tensor absmax_scale(const at::Tensor& values) {
  const auto largest = values.abs().amax(-1);
  return at::where(largest > 0, largest / kLargestCode, at::ones_like(largest));
}

// Exact sums of products of int8: [m, k] x [n, k] -> f32 [m, n].
at::Tensor int8_sums(const at::Tensor& a, const at::Tensor& b) {
  // cuBLAS takes int8 only in certain shapes; f64 holds every sum exactly.
  const bool fits = !a.is_cuda() || (a.size(0) > 16 && a.size(1) % 8 == 0 && b.size(0) % 8 == 0);
  if (fits) return at::_int_mm(a, b.t()).to(at::kFloat);
  return at::mm(a.to(at::kDouble), b.to(at::kDouble).t()).to(at::kFloat);
}

at::Tensor one_sequence(const at::Tensor& x, const Int8Linear& linear) {
  const auto outliers = outlier_columns(x, linear.threshold);
  const auto inliers = x.to(at::kFloat).masked_fill(outliers, 0);
  const auto token_scales = absmax_scale(inliers);
  const auto codes = (inliers / token_scales.unsqueeze(1)).round_().to(at::kChar);
  auto product = int8_sums(codes, linear.codes)
                     .mul_(token_scales.unsqueeze(1))
                     .mul_(linear.row_scales.unsqueeze(0));
  const auto columns = outliers.nonzero().squeeze(1);
  if (columns.numel() > 0) {
    const auto weights =
        (linear.codes.index_select(1, columns).to(at::kFloat) * linear.row_scales.unsqueeze(1))
            .to(x.scalar_type());
    product.add_(at::mm(x.index_select(1, columns), weights.t()).to(at::kFloat));
  }
  return product;
}

}  // namespace

at::Tensor Int8Linear::dequantize(at::ScalarType dtype) const {
  return (codes.to(at::kFloat) * row_scales.unsqueeze(1)).to(dtype);
}

Int8Linear Int8Linear::to(at::Device device) const {
  return {codes.to(device), row_scales.to(device), threshold};
}

Int8Linear quantize_int8(const at::Tensor& weights, double threshold) {
  const auto scales = absmax_scale(weights);
  return {(weights / scales.unsqueeze(1)).round_().to(at::kChar).contiguous(), scales, threshold};
}

at::Tensor outlier_columns(const at::Tensor& x, double threshold) {
  return (x.abs() >= threshold).any(0);
}

at::Tensor int8_product(const at::Tensor& x, const Int8Linear& linear, const at::Tensor& bias) {
  std::vector<at::Tensor> sequences;
  for (int64_t i = 0; i < x.size(0); ++i) {
    auto product = one_sequence(x[i], linear);
    if (bias.defined()) product.add_(bias);
    sequences.push_back(product.to(x.scalar_type()));
  }
  return at::stack(sequences);
}

}  // namespace gptqb
