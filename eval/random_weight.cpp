#include "eval/random_weight.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/error.h"

namespace gptqb {
namespace {

// SplitMix64 (Steele et al. 2014): a stream a row, so that rows can be made in parallel. Streams of
// one generator are one sequence from different places, so each starts at a place that is drawn.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) { state_ = (*this)(); }
  uint64_t operator()() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

at::Tensor to_device(const void* data, at::IntArrayRef sizes, at::ScalarType type,
                     at::Device device) {
  return at::from_blob(const_cast<void*>(data), sizes, at::TensorOptions().dtype(type))
      .to(device, /*non_blocking=*/false, /*copy=*/true);
}

double rounding_of(at::ScalarType type) {
  return type == at::kHalf ? 0x1p-11 : type == at::kBFloat16 ? 0x1p-8 : 0x1p-24;
}

}  // namespace

RandomWeight::RandomWeight(const RandomWeightSpec& spec) : spec_(spec) {
  const int64_t rows = spec.rows, columns = spec.columns;
  const bool one = spec.group_size == -1 || spec.group_size >= columns;
  groups_ = one ? 1 : (columns + spec.group_size - 1) / spec.group_size;
  codes_.resize(static_cast<size_t>(rows * columns));
  scales_.resize(static_cast<size_t>(rows * groups_));
  zeros_.resize(scales_.size());
  const double step =
      4.0 / static_cast<double>(int64_t{1} << spec.bits) / std::sqrt(static_cast<double>(columns));
  const uint64_t bytes = 0x0101010101010101ULL * ((uint64_t{1} << spec.bits) - 1);
  at::parallel_for(0, rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      Draw draw(spec.seed + static_cast<uint64_t>(row) + 1);
      uint8_t* codes = codes_.data() + row * columns;
      for (int64_t i = 0; i < columns; i += 8) {
        const uint64_t eight = draw() & bytes;
        std::copy_n(reinterpret_cast<const uint8_t*>(&eight), std::min<int64_t>(8, columns - i),
                    codes + i);
      }
      for (int64_t group = 0; group < groups_; ++group) {
        const auto at = static_cast<size_t>(row * groups_ + group);
        scales_[at] = c10::Half(static_cast<float>(step * (0.5 + draw.uniform())));
        zeros_[at] = static_cast<uint8_t>(spec.symmetric ? uint64_t{1} << (spec.bits - 1)
                                                         : draw() & bytes & 0xFF);
      }
    }
  });
  if (!spec.act_order || one) return;
  group_of_input_.resize(static_cast<size_t>(columns));
  for (int64_t i = 0; i < columns; ++i)
    group_of_input_[static_cast<size_t>(i)] = static_cast<int32_t>(i / spec.group_size);
  Draw draw(spec.seed + 0x5EED);
  for (auto i = static_cast<uint64_t>(columns) - 1; i > 0; --i)
    std::swap(group_of_input_[i], group_of_input_[draw() % (i + 1)]);
}

kernels::QuantView RandomWeight::view() const {
  kernels::QuantView view;
  view.rows = spec_.rows;
  view.columns = spec_.columns;
  view.groups = groups_;
  view.bits = spec_.bits;
  view.group_size = spec_.group_size;
  view.codes = codes_.data();
  view.scales = scales_.data();
  view.zeros = zeros_.data();
  if (!group_of_input_.empty()) view.group_of_input = group_of_input_.data();
  return view;
}

ExactProduct::ExactProduct(const kernels::QuantView& view, at::Device device) {
  rows_ = view.rows;
  columns_ = view.columns;
  codes_ = to_device(view.codes, {rows_, columns_}, at::kByte, device);
  scales_ = to_device(view.scales, {rows_, view.groups}, at::kFloat, device);
  zeros_ = to_device(view.zeros, {rows_, view.groups}, at::kByte, device);
  std::vector<int64_t> groups(static_cast<size_t>(columns_));
  for (int64_t i = 0; i < columns_; ++i)
    groups[static_cast<size_t>(i)] = view.group_of_input != nullptr ? view.group_of_input[i]
                                     : view.groups == 1             ? 0
                                                                    : i / view.group_size;
  group_of_input_ = to_device(groups.data(), {columns_}, at::kLong, device);
}

ExactProduct::ExactProduct(const at::Tensor& weight)
    : rows_(weight.size(0)), columns_(weight.size(1)), dense_(weight) {}

ExactProduct::Part ExactProduct::part(int64_t begin, int64_t rows) const {
  if (dense_.defined()) {
    const auto weight = dense_.narrow(0, begin, rows).to(at::kDouble);
    return {weight, weight};
  }
  const auto scales =
      scales_.narrow(0, begin, rows).to(at::kDouble).index_select(1, group_of_input_);
  const auto zeros = zeros_.narrow(0, begin, rows).to(at::kDouble).index_select(1, group_of_input_);
  const auto codes = codes_.narrow(0, begin, rows).to(at::kDouble);
  return {(codes - zeros).mul_(scales), (codes + zeros).mul_(scales)};
}

ProductError ExactProduct::error_of(const at::Tensor& x, const at::Tensor& bias,
                                    const at::Tensor& y) const {
  const int64_t m = x.size(0);
  if (x.size(1) != columns_ || y.size(0) != m || y.size(1) != rows_)
    throw Error("ExactProduct", "expected x [" + std::to_string(m) + ", " +
                                    std::to_string(columns_) + "] and y [" + std::to_string(m) +
                                    ", " + std::to_string(rows_) + "], got other sizes");
  const double u = rounding_of(y.scalar_type());
  const double sums = 0x1p-25 * static_cast<double>(columns_);
  const auto wide = x.to(at::kDouble);
  const auto squares = wide.square();
  // About a gigabyte of float64 at a time.
  const int64_t step = std::max<int64_t>((int64_t{1} << 25) / (columns_ + m), 1);
  ProductError result;
  double largest = 0, sum_of_errors = 0, sum_of_sizes = 0, largest_error = 0;
  for (int64_t begin = 0; begin < rows_; begin += step) {
    const int64_t rows = std::min(step, rows_ - begin);
    const Part of = part(begin, rows);
    auto exact = at::mm(wide, of.weight.t());
    if (bias.defined()) exact += bias.narrow(0, begin, rows).to(at::kDouble);
    auto bound = at::mm(squares, of.weight.square().t()).sqrt_().mul_(3 * u);
    bound += at::mm(squares, of.terms.square().t()).sqrt_().mul_(sums);
    // Half of the smallest step of float16, which a result near 0 is rounded to.
    bound += (exact.abs() + bound).mul_(u) + (y.scalar_type() == at::kHalf ? 0x1p-25 : 1e-38);
    const auto error = (y.narrow(1, begin, rows).to(at::kDouble) - exact).abs_();
    const auto share = (error / bound).max().item<double>();
    // A comparison with NaN is false, and it must not be lost.
    if (!(share <= result.of_bound)) result.of_bound = share;
    largest_error = std::max(largest_error, error.max().item<double>());
    largest = std::max(largest, exact.abs().max().item<double>());
    sum_of_errors += error.sum().item<double>();
    sum_of_sizes += exact.abs().sum().item<double>();
    if (std::isnan(result.of_bound)) break;
  }
  if (std::isnan(result.of_bound)) {
    result.max_relative = result.mean_relative = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  result.max_relative = largest_error / largest;
  result.mean_relative = sum_of_errors / sum_of_sizes;
  return result;
}

}  // namespace gptqb
