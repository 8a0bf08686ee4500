// Seeded quantized products, their result in float64 from the canonical form, and how far a kernel
// may be from it. No tensors: the same for kernels on the CPU and on a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/half_bits.h"
#include "kernels/matmul.h"
#include "kernels/quant_view.h"

namespace gptqb::test {

using kernels::HalfType;

// Which group a column belongs to.
enum class ColumnOrder {
  kNatural,  // i / group_size, no index
  kIndexed,  // the same, written out (static groups)
  kActOrder  // groups of group_size columns from anywhere (act-order with dynamic groups)
  ,
  kUneven  // any number of columns a group, one group empty where there are three or more
};

struct MatmulCase {
  int64_t m = 1;
  int64_t n = 0;
  int64_t k = 0;
  int64_t bits = 4;
  int64_t group_size = -1;
  bool symmetric = false;
  ColumnOrder order = ColumnOrder::kNatural;
  bool bias = false;
  HalfType type = HalfType::kFloat16;

  std::string text() const {
    constexpr const char* kOrders[] = {"natural", "indexed", "act-order", "uneven"};
    return "m " + std::to_string(m) + " n " + std::to_string(n) + " k " + std::to_string(k) +
           " bits " + std::to_string(bits) + " group " + std::to_string(group_size) +
           (symmetric ? " sym " : " asym ") + kOrders[static_cast<int>(order)] +
           (bias ? " bias" : "") + (type == HalfType::kFloat16 ? " f16" : " bf16");
  }
};

struct MatmulData {
  MatmulCase of;
  int64_t groups = 1;
  std::vector<uint8_t> codes;           // [n, k]
  std::vector<float> scales;            // [n, groups]
  std::vector<uint8_t> zeros;           // [n, groups]
  std::vector<int32_t> group_of_input;  // [k], empty in natural order
  std::vector<uint16_t> x;              // [m, k], bits of of.type
  std::vector<uint16_t> bias;           // [n] or empty

  int64_t group(int64_t column) const {
    if (!group_of_input.empty()) return group_of_input[static_cast<size_t>(column)];
    return groups == 1 ? 0 : column / of.group_size;
  }
  kernels::QuantView view() const {
    kernels::QuantView view;
    view.rows = of.n;
    view.columns = of.k;
    view.groups = groups;
    view.bits = of.bits;
    view.group_size = of.group_size;
    view.codes = codes.data();
    view.scales = scales.data();
    view.zeros = zeros.data();
    if (!group_of_input.empty()) view.group_of_input = group_of_input.data();
    return view;
  }
  kernels::MatmulProblem problem() const {
    kernels::MatmulProblem problem;
    problem.m = of.m;
    problem.n = of.n;
    problem.k = of.k;
    problem.bits = of.bits;
    problem.group_size = of.group_size;
    problem.symmetric = of.symmetric;
    problem.act_order = of.order == ColumnOrder::kActOrder || of.order == ColumnOrder::kUneven;
    problem.bias = of.bias;
    problem.type = of.type;
    return problem;
  }
};

// Codes of every value, scales near 1 / sqrt(k), normal activations of which every 37th column is
// 20 times larger; outputs far from float16's largest number.
inline MatmulData matmul_data(const MatmulCase& wanted, uint64_t seed = 1) {
  MatmulData data;
  data.of = wanted;
  const int64_t n = wanted.n;
  const int64_t k = wanted.k;
  std::mt19937_64 generator(seed);
  const auto uniform = [&] { return (static_cast<double>(generator() >> 11) + 0.5) * 0x1p-53; };
  const auto normal = [&] {
    return std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
  };
  const bool one = wanted.group_size == -1 || wanted.group_size >= k;
  data.groups = one ? 1 : (k + wanted.group_size - 1) / wanted.group_size;

  data.codes.resize(static_cast<size_t>(n * k));
  for (auto& code : data.codes)
    code = static_cast<uint8_t>(generator() >> 40 & ((1U << wanted.bits) - 1));
  data.scales.resize(static_cast<size_t>(n * data.groups));
  const double step =
      4.0 / static_cast<double>(1 << wanted.bits) / std::sqrt(static_cast<double>(k));
  for (auto& scale : data.scales)
    scale = kernels::float_of_half(
        kernels::half_of_float(static_cast<float>(step * (0.5 + uniform()))));
  data.zeros.resize(data.scales.size());
  for (auto& zero : data.zeros)
    zero = static_cast<uint8_t>(wanted.symmetric ? 1U << (wanted.bits - 1)
                                                 : generator() >> 40 & ((1U << wanted.bits) - 1));

  if (wanted.order != ColumnOrder::kNatural) {
    for (int64_t i = 0; i < k; ++i)
      data.group_of_input.push_back(static_cast<int32_t>(one ? 0 : i / wanted.group_size));
    if (wanted.order == ColumnOrder::kActOrder)
      for (int64_t i = k - 1; i > 0; --i)
        std::swap(data.group_of_input[static_cast<size_t>(i)],
                  data.group_of_input[generator() % static_cast<uint64_t>(i + 1)]);
    if (wanted.order == ColumnOrder::kUneven)
      for (auto& group : data.group_of_input) {
        const auto drawn = static_cast<int64_t>(generator() % static_cast<uint64_t>(data.groups));
        group = static_cast<int32_t>(data.groups >= 3 && drawn == 1 ? 0 : drawn);
      }
  }

  data.x.resize(static_cast<size_t>(wanted.m * k));
  for (int64_t i = 0; i < wanted.m * k; ++i)
    data.x[static_cast<size_t>(i)] =
        kernels::bits_of(wanted.type, static_cast<float>(normal() * (i % k % 37 == 5 ? 20 : 1)));
  if (wanted.bias) {
    for (int64_t i = 0; i < n; ++i)
      data.bias.push_back(kernels::bits_of(wanted.type, static_cast<float>(normal())));
  }
  return data;
}

// How a kernel rounds, as shares of what it rounds.
struct MatmulRounding {
  // Of a sum, in units of the sum of its terms' sizes: additions in a row x 2^-24 in float32.
  double sums = 0;
  // Of each product x w: 2^-11 for weights made float16, 2^-8 for bfloat16; or as `sums`, where
  // zero points are taken off codes before anything is rounded.
  double products = 0;
  // Of each activation, in units of the largest one in its group.
  double inputs = 0;
};

// The product in float64, and the largest difference from it that `rounding` allows, [m, n] both.
struct MatmulExact {
  std::vector<double> y;
  std::vector<double> bound;
};

// |error| <= sums * sum |x| s (code + zero) + products * sum |x w| + inputs * sum max|x| |w| + the
// rounding of y itself. Terms of sums count with code and zero apart, as kernels may take them.
inline MatmulExact exact_matmul(const MatmulData& data, const MatmulRounding& rounding) {
  const MatmulCase& of = data.of;
  MatmulExact exact;
  exact.y.resize(static_cast<size_t>(of.m * of.n));
  exact.bound.resize(exact.y.size());
  std::vector<double> x(static_cast<size_t>(of.k));
  std::vector<double> largest(static_cast<size_t>(data.groups));
  for (int64_t token = 0; token < of.m; ++token) {
    std::fill(largest.begin(), largest.end(), 0);
    for (int64_t i = 0; i < of.k; ++i) {
      const auto at = static_cast<size_t>(i);
      x[at] = kernels::float_of(of.type, data.x[static_cast<size_t>(token * of.k + i)]);
      double& most = largest[static_cast<size_t>(data.group(i))];
      most = std::max(most, std::abs(x[at]));
    }
    for (int64_t row = 0; row < of.n; ++row) {
      double sum = of.bias ? kernels::float_of(of.type, data.bias[static_cast<size_t>(row)]) : 0;
      double terms = std::abs(sum);
      double products = 0;
      double spread = 0;
      for (int64_t i = 0; i < of.k; ++i) {
        const auto at = static_cast<size_t>(i);
        const int64_t group = data.group(i);
        const auto grid = static_cast<size_t>(row * data.groups + group);
        const double scale = data.scales[grid];
        const double code = data.codes[static_cast<size_t>(row * of.k + i)];
        const double zero = data.zeros[grid];
        const double weight = scale * (code - zero);
        sum += x[at] * weight;
        terms += std::abs(x[at]) * scale * (code + zero);
        products += std::abs(x[at] * weight);
        spread += largest[static_cast<size_t>(group)] * std::abs(weight);
      }
      const auto at = static_cast<size_t>(token * of.n + row);
      exact.y[at] = sum;
      const double computed =
          rounding.sums * terms + rounding.products * products + rounding.inputs * spread;
      // Half a step of the result's type, and half of its smallest step.
      const bool half = of.type == HalfType::kFloat16;
      exact.bound[at] =
          computed + (half ? 0x1p-11 : 0x1p-8) * (std::abs(sum) + computed) + (half ? 0x1p-25 : 0);
    }
  }
  return exact;
}

// The worst output as a share of its bound: at most 1 for a kernel that is right; infinite if an
// output is not finite. `y` [m, n], bits of the case's type.
inline double share_of_bound(const MatmulData& data, const MatmulExact& exact, const uint16_t* y) {
  double worst = 0;
  for (size_t i = 0; i < exact.y.size(); ++i) {
    const double got = kernels::float_of(data.of.type, y[i]);
    if (!std::isfinite(got)) return INFINITY;
    worst = std::max(worst, std::abs(got - exact.y[i]) / exact.bound[i]);
  }
  return worst;
}

}  // namespace gptqb::test
