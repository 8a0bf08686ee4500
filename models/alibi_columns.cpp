#include "models/alibi_columns.h"

#include <cmath>

namespace gptqb {
namespace {

// bfloat16 has the integers up to here, and float16 its multiples as far as positions go.
constexpr int64_t kLowPositions = 256;
constexpr int64_t kSlopeParts = 3;
static_assert(2 * kSlopeParts <= AlibiColumns::kUsed);

}  // namespace

// Powers of an f32 base, as in transformers: the last bit of a slope shows at late positions.
at::Tensor alibi_slopes(int64_t heads, at::Device device) {
  int64_t lower = 1;
  while (2 * lower <= heads) lower *= 2;
  const auto powers = [&](int64_t of_heads, int64_t count, int64_t step) {
    const double base = std::exp2(-8.0 / static_cast<double>(of_heads));
    return at::pow(
        at::full({}, base, at::TensorOptions(at::kFloat).device(device)),
        at::arange(1, 1 + step * count, step, at::TensorOptions(at::kInt).device(device)));
  };
  const at::Tensor slopes = powers(lower, lower, 1);
  return lower == heads ? slopes : at::cat({slopes, powers(2 * lower, heads - lower, 2)});
}

AlibiColumns alibi_columns(const at::Tensor& slopes, int64_t seqlen, double scale,
                           at::ScalarType dtype, int64_t columns) {
  const auto options = slopes.options().dtype(dtype);
  const AlibiColumns result{at::zeros({slopes.size(0), columns}, options),
                            at::zeros({seqlen, columns}, options)};
  const at::Tensor positions = at::arange(seqlen, slopes.options().dtype(at::kLong));
  const at::Tensor low = at::remainder(positions, kLowPositions);
  at::Tensor left = slopes.to(at::kDouble).div_(scale);
  for (int64_t part = 0; part < kSlopeParts; ++part) {
    const at::Tensor slope = left.to(dtype);
    left.sub_(slope.to(at::kDouble));
    result.queries.narrow(1, 2 * part, 2).copy_(slope.unsqueeze(1));
    result.keys.select(1, 2 * part).copy_(low);
    result.keys.select(1, 2 * part + 1).copy_(positions - low);
  }
  return result;
}

}  // namespace gptqb
