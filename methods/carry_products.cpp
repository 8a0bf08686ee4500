#include "methods/carry_products.h"

#include <utility>

namespace gptqb {
namespace {

// Multiply-adds below which one plain product takes less time than three launches.
constexpr int64_t kSmall = int64_t{1} << 29;

}  // namespace

CarryProducts::CarryProducts(const at::Tensor& factor, const at::Tensor& errors,
                             const at::Tensor& carried, ProductPrecision precision,
                             PackedFactor packed)
    : factor_(factor), precision_(precision), packed_factor_(std::move(packed)) {
  if (!carried.is_cuda() || carried.scalar_type() != at::kFloat)
    precision_ = ProductPrecision::kFp32;
  if (precision_ == ProductPrecision::kTf32x3) split_factor_ = split_for_tf32(factor);
  restart(errors, carried);
}

void CarryProducts::restart(const at::Tensor& errors, const at::Tensor& carried) {
  errors_ = errors;
  carried_ = carried;
  split_until_ = 0;
  if (precision_ == ProductPrecision::kTf32x3)
    split_errors_ = {at::empty_like(errors), at::empty_like(errors)};
  if (packed_factor_.panels.defined())
    packed_errors_.restart(packed_factor_, errors.size(0), errors.size(1));
}

void CarryProducts::carry_panels(int64_t begin, int64_t middle, int64_t end) {
  const int64_t packed = packed_errors_.packed();
  if (packed < middle) packed_errors_.pack(errors_.slice(0, packed, middle));
  packed_errors_.add_product(packed_factor_, begin, middle, middle, end,
                             carried_.mutable_data_ptr<float>() + middle * carried_.size(1));
}

void CarryProducts::carry(int64_t begin, int64_t middle, int64_t end) {
  if (packed_factor_.panels.defined()) {
    carry_panels(begin, middle, end);
    return;
  }
  auto target = carried_.slice(0, middle, end);
  const auto add = [&](const at::Tensor& factor, const at::Tensor& errors) {
    target.addmm_(factor.slice(0, begin, middle).slice(1, middle, end).t(),
                  errors.slice(0, begin, middle));
  };
  const bool small = (middle - begin) * (end - middle) * carried_.size(1) < kSmall;
  switch (small ? ProductPrecision::kFp32 : precision_) {
    case ProductPrecision::kFp32:
      add(factor_, errors_);
      return;
    case ProductPrecision::kTf32: {
      const AllowTf32 allow;
      add(factor_, errors_);
      return;
    }
    case ProductPrecision::kTf32x3: {
      if (split_until_ < middle) {
        split_for_tf32(errors_.slice(0, split_until_, middle),
                       {split_errors_.high.slice(0, split_until_, middle),
                        split_errors_.low.slice(0, split_until_, middle)});
        split_until_ = middle;
      }
      const AllowTf32 allow;
      // The product of the low halves is below what float32 keeps. Small terms first.
      add(split_factor_.low, split_errors_.high);
      add(split_factor_.high, split_errors_.low);
      add(split_factor_.high, split_errors_.high);
      return;
    }
  }
}

}  // namespace gptqb
