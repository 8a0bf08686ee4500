#include "methods/calibration.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "common/error.h"
#include "methods/published_sums.h"
#include "methods/second_moments_cpu.h"
#include "methods/second_moments_gpu.h"

namespace gptqb {

CalibrationStats::CalibrationStats(int64_t in_features, at::Device device,
                                   Accumulation accumulation,
                                   std::optional<double> outlier_threshold,
                                   ProductPrecision precision)
    : sum_(at::zeros({in_features, in_features},
                     at::TensorOptions().dtype(at::kFloat).device(device))),
      accumulation_(accumulation),
      precision_(precision),
      outlier_threshold_(outlier_threshold) {
  // f32 products must be f32: TF32 keeps 10 mantissa bits (protocol.md section 3: off in the
  // published code).
  if (device.is_cuda()) at::globalContext().setAllowTF32CuBLAS(false);
}

void CalibrationStats::add_published(const at::Tensor& x) {
  for (int64_t i = 0; i < x.size(0); ++i) {
    const auto before = static_cast<double>(sequences_ + i);
    const auto inputs = published_inputs(x[i], std::sqrt(2 / (before + 1)));
    add_published_product(sum_, before / (before + 1), at::matmul(inputs, inputs.t()));
  }
}

void CalibrationStats::add(const at::Tensor& x) {
  const int64_t n = in_features();
  if (x.dim() != 3 || x.size(2) != n)
    throw Error("calibration", "expected inputs [sequences, seqlen, " + std::to_string(n) +
                                   "], got " + std::to_string(x.dim()) +
                                   " dimensions, the last of " +
                                   std::to_string(x.dim() > 0 ? x.size(-1) : 0));
  const auto flat = x.reshape({-1, n});
  if (accumulation_ == Accumulation::kPublished)
    add_published(x);
  else if (flat.is_cpu())
    add_second_moments_cpu(sum_, flat);
  else
    add_second_moments_gpu(sum_, flat, precision_);
  tokens_ += flat.size(0);
  sequences_ += x.size(0);
  if (outlier_threshold_)
    outlier_columns_ += (x.abs() >= *outlier_threshold_).any(1).sum().item<int64_t>();
  // A bad input stays visible in the sum's diagonal for ever, so the costly search runs only once
  // there is one.
  if (sum_.diagonal().isfinite().all().item<bool>()) return;
  const auto bad = flat.isfinite().logical_not();
  const int64_t count = bad.sum().item<int64_t>();
  if (count == 0) return;
  non_finite_ += count;
  if (first_non_finite_column_ >= 0) return;
  const int64_t first = bad.reshape({-1}).to(at::kInt).argmax().item<int64_t>();
  first_non_finite_sequence_ = sequences_ - x.size(0) + first / (x.size(1) * n);
  first_non_finite_column_ = first % n;
}

std::optional<double> CalibrationStats::outlier_share() const {
  if (!outlier_threshold_ || sequences_ == 0) return std::nullopt;
  return static_cast<double>(outlier_columns_) / static_cast<double>(sequences_ * in_features());
}

at::Tensor CalibrationStats::hessian() const {
  if (accumulation_ == Accumulation::kPublished) return sum_;
  const double factor = sequences_ == 0 ? 0.0 : 2.0 / static_cast<double>(sequences_);
  auto upper = sum_.triu();
  const auto full = upper.add_(sum_.triu(1).t());
  return full.mul(factor);
}

}  // namespace gptqb
