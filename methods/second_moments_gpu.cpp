#include "methods/second_moments_gpu.h"

#include <algorithm>

#include "kernels/second_moments.h"
#include "methods/device_stream.h"
#include "methods/half_type.h"
#include "methods/sum_in_float32.h"

namespace gptqb {
namespace {

// Columns of a panel: wide enough for a product to fill the GPU, narrow enough that little below
// the diagonal is computed.
int64_t panel_columns(int64_t in_features) {
  return std::max<int64_t>(1024, in_features / 16 / 128 * 128);
}

// Calls action(target, panel, rest) for the panels of columns whose products reach the upper
// triangle.
template <class Action>
void for_each_panel(at::Tensor& sum, const at::Tensor& x, const Action& action) {
  const int64_t n = x.size(1);
  const int64_t columns = panel_columns(n);
  for (int64_t begin = 0; begin < n; begin += columns) {
    const int64_t width = std::min(columns, n - begin);
    action(sum.narrow(0, begin, width).narrow(1, begin, n - begin), x.narrow(1, begin, width).t(),
           x.narrow(1, begin, n - begin));
  }
}

// Values that are widened to f32 at a time: 256 MiB, which fill the GPU.
constexpr int64_t kWidened = int64_t{1} << 26;

// Calls action(part) for runs of at most `tokens` rows of x.
template <class Action>
void for_each_part(const at::Tensor& x, int64_t tokens, const Action& action) {
  for (int64_t begin = 0; begin < x.size(0); begin += tokens)
    action(x.narrow(0, begin, std::min(tokens, x.size(0) - begin)));
}

void add_in_float32(at::Tensor& sum, const at::Tensor& x) {
  for_each_part(x, std::max<int64_t>(1, kWidened / x.size(1)), [&](const at::Tensor& part) {
    for_each_panel(sum, part.to(at::kFloat),
                   [](at::Tensor target, const at::Tensor& panel, const at::Tensor& rest) {
                     target.addmm_(panel, rest);
                   });
  });
}

void add_by_tensor_cores(at::Tensor& sum, const at::Tensor& x, int64_t tokens) {
  const SumInFloat32 exact;
  for_each_part(x, tokens, [&](const at::Tensor& part) {
    for_each_panel(sum, part,
                   [](at::Tensor target, const at::Tensor& panel, const at::Tensor& rest) {
                     at::addmm_out(target, target, panel, rest, at::kFloat);
                   });
  });
}

// Whether the kernel for Hopper takes x.
bool fits_kernel(const at::Tensor& sum, const at::Tensor& x) {
  const DeviceStream on_its_device(x.device());
  return x.is_contiguous() && sum.is_contiguous() && x.size(1) % 8 == 0 && x.size(0) > 0 &&
         reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0 &&
         kernels::has_second_moments_cuda();
}

void add_by_kernel(at::Tensor& sum, const at::Tensor& x, int64_t tokens) {
  const DeviceStream stream(x.device());
  const auto workspace =
      at::empty({kernels::second_moments_workspace(x.size(0), x.size(1), tokens)}, sum.options());
  const auto pace = at::empty({1}, x.options().dtype(at::kInt));
  kernels::second_moments_cuda({.type = half_type(x),
                                .tokens = x.size(0),
                                .features = x.size(1),
                                .tokens_at_once = tokens,
                                .x = x.const_data_ptr(),
                                .sum = sum.mutable_data_ptr<float>(),
                                .workspace = workspace.mutable_data_ptr<float>(),
                                .pace = pace.mutable_data_ptr<int32_t>()},
                               stream.handle());
}

}  // namespace

void add_second_moments_gpu(at::Tensor& sum, const at::Tensor& x, ProductPrecision precision) {
  const bool exact = precision == ProductPrecision::kFp32 ||
                     (precision == ProductPrecision::kTf32x3 && x.size(1) <= kNarrow);
  // Sums of any length, where precision asks for no more.
  const bool any = precision == ProductPrecision::kTf32;
  if (exact || x.element_size() != 2)
    add_in_float32(sum, x);
  else if (fits_kernel(sum, x))
    add_by_kernel(sum, x, any ? (x.size(0) + 63) / 64 * 64 : kTokensPerSum);
  else
    add_by_tensor_cores(sum, x, any ? x.size(0) : kTokensPerProduct);
}

}  // namespace gptqb
