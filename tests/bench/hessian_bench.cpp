// How quickly calibration sums x x^T, against the library's float32 product of the same shape, and
// how far both are from float64 (issue 4, speed: at least 80 % of the product's rate on two cores).
//
//   bench_hessian [n [tokens [repetitions]]]      defaults 4096 2048 7
//
// One line per input dtype, in turns with the product `at::mm(x^T, x)` of the same values in
// float32. "Full-product rate" counts 2 tokens n^2 operations for both, as the published code does
// them; `add` computes one triangle, "done" counts those only. Medians and ranges; errors are
// |H - H64| / |H64| (Frobenius) and the largest difference over the largest element.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "methods/calibration.h"
#include "tests/bench/bench_clock.h"

namespace gptqb {
namespace {

void print_error(const char* name, const at::Tensor& h, const at::Tensor& exact) {
  const auto difference = h.to(at::kDouble) - exact;
  std::printf("  %-10s error %.2e of the norm, %.2e of the largest element\n", name,
              (difference.norm() / exact.norm()).item<double>(),
              (difference.abs().max() / exact.abs().max()).item<double>());
}

// `x` [1, tokens, n] in the dtype to measure.
void measure(const char* name, const at::Tensor& x, int64_t repetitions) {
  const int64_t tokens = x.size(1);
  const int64_t n = x.size(2);
  const auto wide = x[0].to(at::kFloat);
  auto product = at::empty({n, n});
  CalibrationStats stats(n, at::kCPU);
  std::vector<double> adds;
  std::vector<double> products;
  std::vector<double> ratios;
  for (int64_t i = 0; i <= repetitions; ++i) {
    const double of_product = seconds_of([&] { at::mm_out(product, wide.t(), wide); });
    const double of_add = seconds_of([&] { stats.add(x); });
    if (i == 0) continue;  // memory is touched for the first time
    products.push_back(of_product);
    adds.push_back(of_add);
    ratios.push_back(of_product / of_add);
  }
  const auto add = spread_of(adds);
  const auto mm = spread_of(products);
  const auto ratio = spread_of(ratios);
  const double full = 2.0 * static_cast<double>(tokens) * static_cast<double>(n * n) / 1e9;
  const double triangle = static_cast<double>(tokens) * static_cast<double>(n * (n + 1)) / 1e9;
  std::printf(
      "%-9s add %.4f s [%.4f, %.4f], full-product rate %.1f GFLOP/s, done %.1f GFLOP/s | at::mm "
      "%.4f s [%.4f, %.4f], %.1f GFLOP/s | %.2fx [%.2f, %.2f]\n",
      name, add.median, add.least, add.most, full / add.median, triangle / add.median, mm.median,
      mm.least, mm.most, full / mm.median, ratio.median, ratio.least, ratio.most);

  CalibrationStats once(n, at::kCPU);
  once.add(x);
  const auto exact_inputs = wide.to(at::kDouble);
  const auto exact = at::mm(exact_inputs.t(), exact_inputs).mul_(2);
  print_error("add", once.hessian(), exact);
  print_error("at::mm", product * 2, exact);
}

int run(int argc, char** argv) {
  const auto argument = [&](int index, int64_t value) {
    return argc > index ? std::atoll(argv[index]) : value;
  };
  const int64_t n = argument(1, 4096);
  const int64_t tokens = argument(2, 2048);
  const int64_t repetitions = argument(3, 7);
  at::manual_seed(1);
  const auto x =
      at::randn({1, tokens, n}) * 0.3 + at::matmul(at::randn({1, tokens, 4}), at::randn({4, n}));
  std::printf("x [1, %lld, %lld], %d threads, median of %lld [range]\n",
              static_cast<long long>(tokens), static_cast<long long>(n), at::get_num_threads(),
              static_cast<long long>(repetitions));
  const std::vector<std::pair<const char*, at::ScalarType>> types = {
      {"float32", at::kFloat}, {"float16", at::kHalf}, {"bfloat16", at::kBFloat16}};
  for (const auto& [name, type] : types) measure(name, x.to(type), repetitions);
  return 0;
}

}  // namespace
}  // namespace gptqb

int main(int argc, char** argv) { return gptqb::run(argc, argv); }
