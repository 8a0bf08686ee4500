// The parts of one layer's GPTQ on a device, by shape: Hessian of 128 x 2048 tokens, factor, solve;
// beside them the published loop (the solver `reference`, tensor operations in the published
// order) where it does not take too long. Synthetic weights and inputs: time only.
//
//   bench_layers DEVICE REPETITIONS ROWSxCOLUMNS...     e.g. bench_layers cuda 5 4096x4096
//
// 4 bits, groups of 128, fresh grids, float32; PRECISION in the environment is fp32, tf32x3 or
// tf32. CSV on stdout: medians, smallest and largest, in seconds. Hessians are of float16 inputs
// with heavy-tailed features, so that they are as ill-conditioned as real ones.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "methods/calibration.h"
#include "methods/clock.h"
#include "methods/gptq_fast.h"
#include "methods/gptq_reference.h"

namespace gptqb {
namespace {

constexpr int64_t kSequences = 128;
constexpr int64_t kSeqlen = 2048;
constexpr int64_t kAtOnce = 16;
// The published loop takes 20 s on the largest shapes.
constexpr int64_t kLargestPublished = int64_t{1} << 28;

struct Times {
  std::vector<double> hessian, factor, solve, published;
};

void print(const char* what, std::vector<double> seconds) {
  if (seconds.empty()) {
    std::printf(",%s,,,", what);
    return;
  }
  std::sort(seconds.begin(), seconds.end());
  std::printf(",%s,%.6f,%.6f,%.6f", what, seconds[seconds.size() / 2], seconds.front(),
              seconds.back());
}

at::Tensor inputs(int64_t columns, at::Device device) {
  const auto options = at::TensorOptions().dtype(at::kHalf).device(device);
  const auto sizes = at::randn({columns}, options).mul(1.2).exp_();
  return at::randn({kAtOnce, kSeqlen, columns}, options).mul_(0.5 * sizes);
}

double solve(const SweepProblem& problem, const Factor& factor, bool published) {
  const Stopwatch watch(problem.weights.device());
  if (published)
    sweep_reference(problem, factor, /*step_by_step=*/true);
  else
    sweep_fast(problem, factor);
  return watch.seconds();
}

void measure(int64_t rows, int64_t columns, at::Device device, int64_t repetitions,
             ProductPrecision precision) {
  at::manual_seed(1);
  const auto x = inputs(columns, device);
  Times times;
  at::Tensor h;
  for (int64_t i = 0; i < repetitions + 1; ++i) {
    CalibrationStats stats(columns, device, Accumulation::kSum, {}, precision);
    const Stopwatch watch(device);
    for (int64_t begin = 0; begin < kSequences; begin += kAtOnce) stats.add(x);
    const double seconds = watch.seconds();
    if (i > 0) times.hessian.push_back(seconds);  // the first one warms up
    h = stats.hessian();
  }
  SweepProblem problem{.layer = "bench",
                       .weights = at::randn({rows, columns}, h.options()) * 0.02,
                       .rule = {.quant = {.bits = 4, .group_size = 128}},
                       .method = {.precision = precision},
                       .compat = {}};
  for (int64_t i = 0; i < repetitions + 1; ++i) {
    const Stopwatch watch(device);
    FactorFailure failure;
    const auto factor = factorize_fast(prepare_hessian(h, 0.01, problem.method), failure);
    if (!factor) std::abort();
    const double factored = watch.seconds();
    const double solved = solve(problem, *factor, false);
    if (i == 0) continue;
    times.factor.push_back(factored);
    times.solve.push_back(solved);
  }
  if (rows * columns <= kLargestPublished) {
    problem.rule.step_by_step = true;
    const Stopwatch watch(device);
    FactorFailure failure;
    const auto factor = factorize_reference(prepare_hessian(h, 0.01, problem.method), failure);
    if (factor) sweep_reference(problem, *factor, /*step_by_step=*/true);
    times.published.push_back(watch.seconds());
  }
  std::printf("%lldx%lld", static_cast<long long>(rows), static_cast<long long>(columns));
  print("hessian", times.hessian);
  print("factor", times.factor);
  print("solve", times.solve);
  print("published_solve", times.published);
  std::printf("\n");
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: bench_layers DEVICE REPETITIONS ROWSxCOLUMNS...\n");
    return 2;
  }
  const at::Device device{std::string(argv[1])};
  const char* named = std::getenv("PRECISION");
  const std::string name = named != nullptr ? named : "tf32x3";
  const auto precision = name == "fp32"   ? ProductPrecision::kFp32
                         : name == "tf32" ? ProductPrecision::kTf32
                                          : ProductPrecision::kTf32x3;
  for (int i = 3; i < argc; ++i) {
    const std::string shape = argv[i];
    const size_t by = shape.find('x');
    if (by == std::string::npos) return 2;
    measure(std::atoll(shape.c_str()), std::atoll(shape.c_str() + by + 1), device,
            std::atoll(argv[2]), precision);
  }
  return 0;
}

}  // namespace
}  // namespace gptqb

int main(int argc, char** argv) { return gptqb::run(argc, argv); }
