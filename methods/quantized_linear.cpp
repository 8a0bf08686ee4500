#include "methods/quantized_linear.h"

#include <ATen/Parallel.h>

#include <cstdio>
#include <cstring>

#include "common/error.h"
#include "methods/quant_config.h"

namespace gptqb {
namespace {

std::string shape_text(const at::Tensor& tensor) {
  std::string text = "[";
  for (int64_t i = 0; i < tensor.dim(); ++i)
    text += (i ? ", " : "") + std::to_string(tensor.size(i));
  return text + "]";
}

void expect_tensor(const std::string& where, const char* name, const at::Tensor& tensor,
                   at::IntArrayRef shape, at::ScalarType dtype) {
  if (!tensor.defined()) throw Error(where, std::string(name) + ": expected a tensor, got none");
  if (tensor.scalar_type() != dtype)
    throw Error(where, std::string(name) + ": expected dtype " + at::toString(dtype) + ", got " +
                           at::toString(tensor.scalar_type()));
  if (tensor.sizes() != shape) {
    std::string wanted = "[";
    for (size_t i = 0; i < shape.size(); ++i) wanted += (i ? ", " : "") + std::to_string(shape[i]);
    throw Error(where,
                std::string(name) + ": expected shape " + wanted + "], got " + shape_text(tensor));
  }
  if (!tensor.is_contiguous())
    throw Error(where, std::string(name) + ": expected a contiguous tensor");
}

void expect_at_most(const std::string& where, const char* name, const at::Tensor& tensor,
                    int64_t limit) {
  if (tensor.numel() == 0) return;
  const int64_t largest = tensor.max().item<int64_t>();
  if (largest > limit)
    throw Error(where, std::string(name) + ": expected values of at most " + std::to_string(limit) +
                           ", got " + std::to_string(largest));
}

int64_t largest_code(const QuantizedLinear& linear) {
  return linear.bits == QuantConfig::kTernary ? 2 : (int64_t{1} << linear.bits) - 1;
}

void expect_scales_and_zeros(const std::string& where, const QuantizedLinear& linear, int64_t rows,
                             int64_t groups) {
  if (linear.levels.defined())
    throw Error(where, "levels: expected none beside scales, got a tensor");
  expect_tensor(where, "scales", linear.scales, {rows, groups}, at::kFloat);
  expect_tensor(where, "zeros", linear.zeros, {rows, groups}, at::kByte);
  expect_at_most(where, "zeros", linear.zeros, largest_code(linear));
  const auto bad = at::logical_or(linear.scales.isfinite().logical_not(), linear.scales.le(0));
  if (bad.any().item<bool>())
    throw Error(where, "scales: expected finite values above 0, got " +
                           std::to_string(bad.sum().item<int64_t>()) + " that are not");
}

void expect_levels(const std::string& where, const QuantizedLinear& linear, int64_t rows,
                   int64_t groups) {
  if (linear.scales.defined() || linear.zeros.defined())
    throw Error(where, "levels: expected neither scales nor zeros beside them, got a tensor");
  expect_tensor(where, "levels", linear.levels, {rows, groups, 3}, at::kFloat);
  const auto lower = linear.levels.select(2, 0);
  const auto upper = linear.levels.select(2, 2);
  const auto good =
      lower.le(0).logical_and(upper.ge(0)).logical_and(linear.levels.select(2, 1).eq(0));
  if (!linear.levels.isfinite().all().item<bool>() || !good.all().item<bool>())
    throw Error(where,
                "levels: expected finite {at most 0, 0, at least 0} in each group, got others");
}

// Lower level, 0 or upper level of each code [rows, groups, columns]; levels [rows, groups].
at::Tensor pick_levels(const at::Tensor& codes, const at::Tensor& lower, const at::Tensor& upper) {
  return at::where(codes == 2, upper, at::where(codes == 0, lower, at::zeros({}, upper.options())));
}

// Eight codes a word, each word times an odd number of its own: a sum that any order of adding
// gives alike, so that codes need not leave their device.
constexpr int64_t kWordBytes = 8;
constexpr int64_t kWordFactor = 0x1b873593cc9e2d51;

uint64_t sum_of_words(const at::Tensor& codes) {
  const int64_t words = (codes.numel() + kWordBytes - 1) / kWordBytes;
  const auto padded =
      at::constant_pad_nd(codes, {0, words * kWordBytes - codes.numel()}).view(at::kLong);
  const auto factors = at::arange(1, words + 1, padded.options()).mul_(kWordFactor).bitwise_or_(1);
  return static_cast<uint64_t>((padded * factors).sum().item<int64_t>());
}

// The same in one pass: tensor operations would fill five arrays of the size of the codes.
uint64_t sum_of_words_on_host(const at::Tensor& codes) {
  const uint8_t* const from = codes.const_data_ptr<uint8_t>();
  const auto product = [&](int64_t word, int64_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, from + word * kWordBytes, static_cast<size_t>(bytes));
    return value * (static_cast<uint64_t>(word + 1) * static_cast<uint64_t>(kWordFactor) | 1);
  };
  const int64_t whole = codes.numel() / kWordBytes;
  const auto add = [](uint64_t a, uint64_t b) { return a + b; };
  const uint64_t sum = at::parallel_reduce(
      0, whole, int64_t{1} << 16, uint64_t{0},
      [&](int64_t begin, int64_t end, uint64_t part) {
        for (int64_t word = begin; word < end; ++word) part += product(word, kWordBytes);
        return part;
      },
      add);
  const int64_t rest = codes.numel() - whole * kWordBytes;
  return rest == 0 ? sum : sum + product(whole, rest);
}

}  // namespace

at::Tensor QuantizedLinear::dequantize(at::ScalarType dtype) const {
  const int64_t rows = out_features();
  const int64_t columns = in_features();
  const auto values = codes.to(at::kFloat);
  if (group_of_input.defined()) {
    const auto index = group_of_input.to(at::kLong);
    if (ternary()) {
      const auto of_input = levels.index_select(1, index);
      return pick_levels(values, of_input.select(2, 0), of_input.select(2, 2)).to(dtype);
    }
    const auto zero = zeros.to(at::kFloat).index_select(1, index);
    return ((values - zero) * scales.index_select(1, index)).to(dtype);
  }
  const int64_t width = group_size < 0 || group_size > columns ? columns : group_size;
  const int64_t full = columns / width;
  auto result = at::empty_like(values);
  const auto fill = [&](int64_t first_group, int64_t count, int64_t group_width) {
    if (count == 0) return;
    const int64_t begin = first_group * width;
    const auto shape = std::vector<int64_t>{rows, count, group_width};
    const auto part = values.narrow(1, begin, count * group_width).reshape(shape);
    at::Tensor weights;
    if (ternary()) {
      const auto of_group = levels.narrow(1, first_group, count);
      weights = pick_levels(part, of_group.narrow(2, 0, 1), of_group.narrow(2, 2, 1));
    } else {
      const auto zero = zeros.narrow(1, first_group, count).to(at::kFloat).unsqueeze(2);
      weights = (part - zero) * scales.narrow(1, first_group, count).unsqueeze(2);
    }
    result.narrow(1, begin, count * group_width)
        .copy_(weights.reshape({rows, count * group_width}));
  };
  fill(0, full, width);
  fill(full, columns % width == 0 ? 0 : 1, columns % width);
  return result.to(dtype);
}

int64_t QuantizedLinear::stored_bits(int64_t scale_bits) const {
  const int64_t index_bits = group_of_input.defined() ? 32 * in_features() : 0;
  if (ternary()) return codes.numel() * 2 + 2 * scale_bits * out_features() * groups() + index_bits;
  return codes.numel() * bits + scales.numel() * (scale_bits + bits) + index_bits;
}

std::string QuantizedLinear::codes_hash() const {
  const auto flat = codes.contiguous().view({-1});
  const uint64_t sum = flat.is_cpu() ? sum_of_words_on_host(flat) : sum_of_words(flat);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(sum ^ (sum >> 32)));
  return text;
}

void QuantizedLinear::validate(const std::string& where) const {
  if (!codes.defined() || codes.dim() != 2)
    throw Error(where, "codes: expected a matrix [out, in], got " +
                           (codes.defined() ? shape_text(codes) : std::string("none")));
  validate_grids(where, out_features(), in_features());
  expect_tensor(where, "codes", codes, {out_features(), in_features()}, at::kByte);
  expect_at_most(where, "codes", codes, largest_code(*this));
}

void QuantizedLinear::validate_grids(const std::string& where, int64_t rows,
                                     int64_t columns) const {
  const bool three_levels = bits == QuantConfig::kTernary;
  if (!three_levels && (bits < 1 || bits > 8))
    throw Error(where, "bits: expected 1 to 8 or ternary, got " + std::to_string(bits));
  if (group_size == 0 || group_size < -1)
    throw Error(where, "group_size: expected -1 or at least 1, got " + std::to_string(group_size));
  const int64_t width = group_size < 0 ? columns : group_size;
  const int64_t groups_wanted = columns == 0 ? 0 : (columns + width - 1) / width;
  if (three_levels)
    expect_levels(where, *this, rows, groups_wanted);
  else
    expect_scales_and_zeros(where, *this, rows, groups_wanted);
  if (group_of_input.defined()) {
    expect_tensor(where, "group_of_input", group_of_input, {columns}, at::kInt);
    expect_at_most(where, "group_of_input", group_of_input, groups_wanted - 1);
    if (columns > 0 && group_of_input.min().item<int64_t>() < 0)
      throw Error(where, "group_of_input: expected values of at least 0, got a negative one");
  }
}

}  // namespace gptqb
