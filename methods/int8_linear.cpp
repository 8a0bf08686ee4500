#include "methods/int8_linear.h"

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

// Inlier columns: [sequences, seqlen, in] -> f32 [sequences, seqlen, out].
at::Tensor inlier_product(const at::Tensor& x, const at::Tensor& outliers,
                          const Int8Linear& linear) {
  const auto flat = x.to(at::kFloat).masked_fill(outliers, 0).reshape({-1, x.size(2)});
  const auto token_scales = absmax_scale(flat);
  const auto codes = (flat / token_scales.unsqueeze(1)).round_().to(at::kChar);
  return int8_sums(codes, linear.codes)
      .mul_(token_scales.unsqueeze(1))
      .mul_(linear.row_scales.unsqueeze(0))
      .view({x.size(0), x.size(1), -1});
}

// Outlier columns, in x's dtype with f32 sums. One product for all sequences: a column that is no
// outlier of a sequence is 0 there and adds nothing, which costs less than picking columns sequence
// by sequence.
at::Tensor outlier_product(const at::Tensor& x, const at::Tensor& outliers,
                           const Int8Linear& linear) {
  const auto columns = outliers.flatten(0, 1).any(0).nonzero().squeeze(1);
  if (columns.numel() == 0) return {};
  const auto picked = x.masked_fill(outliers.logical_not(), 0).index_select(2, columns);
  const auto weights =
      (linear.codes.index_select(1, columns).to(at::kFloat) * linear.row_scales.unsqueeze(1))
          .to(x.scalar_type());
  return at::matmul(picked, weights.t()).to(at::kFloat);
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
  return (x.abs() >= threshold).any(-2);
}

at::Tensor int8_product(const at::Tensor& x, const Int8Linear& linear, const at::Tensor& bias) {
  const auto outliers = outlier_columns(x, linear.threshold).unsqueeze(1);
  auto product = inlier_product(x, outliers, linear);
  if (const auto added = outlier_product(x, outliers, linear); added.defined()) product.add_(added);
  if (bias.defined()) product.add_(bias);
  return product.to(x.scalar_type());
}

}  // namespace gptqb
