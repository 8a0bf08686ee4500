#include "methods/calibration.h"

#include <ATen/Context.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "common/error.h"
#include "methods/second_moments_cpu.h"

namespace gptqb {
namespace {

// Values that are converted to f32 at a time: 16 MiB of a host's cache, 256 MiB of a GPU, whose
// products need that much to fill it.
int64_t values_per_chunk(at::Device device) {
  return device.is_cuda() ? int64_t{1} << 26 : int64_t{1} << 22;
}
// Only products on and right of the diagonal are computed, in panels of this many columns.
constexpr int64_t kPanel = 512;

// upper_triangle(sum) += x^T x for x [tokens, in] f32.
void add_products(at::Tensor& sum, const at::Tensor& x) {
  const int64_t n = x.size(1);
  for (int64_t begin = 0; begin < n; begin += kPanel) {
    const int64_t width = std::min(kPanel, n - begin);
    sum.narrow(0, begin, width)
        .narrow(1, begin, n - begin)
        .addmm_(x.narrow(1, begin, width).t(), x.narrow(1, begin, n - begin));
  }
}

}  // namespace

CalibrationStats::CalibrationStats(int64_t in_features, at::Device device,
                                   Accumulation accumulation,
                                   std::optional<double> outlier_threshold)
    : sum_(at::zeros({in_features, in_features},
                     at::TensorOptions().dtype(at::kFloat).device(device))),
      accumulation_(accumulation),
      outlier_threshold_(outlier_threshold) {
  // f32 products must be f32: TF32 keeps 10 mantissa bits (protocol.md section 3: off in the
  // published code).
  if (device.is_cuda()) at::globalContext().setAllowTF32CuBLAS(false);
}

void CalibrationStats::add_sum(const at::Tensor& flat) {
  if (flat.is_cpu()) return add_second_moments_cpu(sum_, flat);
  // Half-precision inputs are widened: a tensor-core product of them is five times faster, but its
  // error, 5e-6 of the largest eigenvalue, is a visible share of the smallest ones (on SmolLM2 it
  // moved a layer's loss by 5 %).
  const int64_t rows =
      std::max<int64_t>(1, values_per_chunk(flat.device()) / std::max<int64_t>(in_features(), 1));
  for (int64_t begin = 0; begin < flat.size(0); begin += rows)
    add_products(sum_, flat.narrow(0, begin, std::min(rows, flat.size(0) - begin)).to(at::kFloat));
}

void CalibrationStats::add_published(const at::Tensor& x) {
  for (int64_t i = 0; i < x.size(0); ++i) {
    const auto before = static_cast<double>(sequences_ + i);
    sum_.mul_(before / (before + 1));
    const auto inputs = x[i].t().to(at::kFloat).mul(std::sqrt(2 / (before + 1)));
    sum_.add_(at::matmul(inputs, inputs.t()));
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
  else
    add_sum(flat);
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
  if (first_non_finite_column_ < 0)
    first_non_finite_column_ = bad.any(0).to(at::kInt).argmax().item<int64_t>();
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
