// One layer quantized by `fast`, by `reference`, and by a step-by-step ATen version of the
// published loop, in turns in one run (issue 4, speed: fast at least 4 times faster than the
// published loop at 4096 x 4096, 3.5 times at 4096 x 11008, groups of 128, act-order, two cores).
//
//   bench_solver [rows columns [repetitions [group_size [act] [only_fast]]]]
//
// Defaults: 4096 4096 3 -1. `act`: columns by falling diag(H). `only_fast`: without `reference`,
// which is the slowest.
//
// First the rate of the library's own product, the yardstick for what is left: a solver needs rows
// n^2 + n^3 / 3 operations. Then one line per solver: median seconds and their range, loss, and how
// many times faster than the published loop, median and range over the turns. Exits 1 if the losses
// disagree.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "methods/gptq_fast.h"
#include "methods/gptq_reference.h"
#include "tests/bench/bench_clock.h"

namespace gptqb {
namespace {

// The published loop as it is written: Losses and Q as matrices, W1/Q1/Err1 per block, one column
// at a time.
double published_loop(const at::Tensor& weights, const at::Tensor& hessian, const GridRule& rule,
                      bool act_order) {
  auto W = weights.clone();
  auto H = hessian.clone();
  const int64_t columns = W.size(1);
  const int64_t group = rule.quant.group_size;
  auto grid = fit_grid(W, rule);
  const auto dead = H.diagonal() == 0;
  H.diagonal().masked_fill_(dead, 1);
  W.masked_fill_(dead.unsqueeze(0), 0);
  if (act_order) {
    const auto order = at::argsort(H.diagonal(), /*dim=*/0, /*descending=*/true);
    W = W.index_select(1, order);
    H = H.index_select(0, order).index_select(1, order);
  }
  H.diagonal().add_(H.diagonal().mean() * 0.01);
  H = at::linalg_cholesky(H);
  H = at::cholesky_inverse(H);
  const auto U = at::linalg_cholesky(H, /*upper=*/true);
  auto Q = at::zeros_like(W);
  auto Losses = at::zeros_like(W);
  for (int64_t begin = 0; begin < columns; begin += 128) {
    const int64_t end = std::min<int64_t>(begin + 128, columns);
    auto W1 = W.slice(1, begin, end).clone();
    auto Q1 = at::zeros_like(W1);
    auto Err1 = at::zeros_like(W1);
    auto Losses1 = at::zeros_like(W1);
    const auto U1 = U.slice(0, begin, end).slice(1, begin, end);
    for (int64_t i = 0; i < end - begin; ++i) {
      const auto w = W1.select(1, i);
      const auto d = U1[i][i];
      if (group > 0 && (begin + i) % group == 0)
        grid = fit_grid(W.slice(1, begin + i, std::min(begin + i + group, columns)), rule);
      const auto q = dequantize_values(
          quantize_values(w, grid.scale, grid.zero, rule.quant.max_code()), grid.scale, grid.zero);
      Q1.select(1, i).copy_(q);
      Losses1.select(1, i).copy_((w - q).square() / d.square());
      const auto err = (w - q) / d;
      W1.slice(1, i).sub_(at::mm(err.unsqueeze(1), U1[i].slice(0, i).unsqueeze(0)));
      Err1.select(1, i).copy_(err);
    }
    Q.slice(1, begin, end).copy_(Q1);
    Losses.slice(1, begin, end).copy_(Losses1 / 2);
    W.slice(1, end).sub_(at::mm(Err1, U.slice(0, begin, end).slice(1, end)));
  }
  return Losses.sum().item<double>();
}

struct Timing {
  double factor = 0;  // seconds, 0 where it is not told apart
  double total = 0;
  double loss = 0;
};

// Operations a second of a float32 product of the library, as the medians of solvers see it.
double product_rate() {
  constexpr int64_t kSize = 4096;
  const auto a = at::randn({kSize, kSize});
  auto c = at::empty_like(a);
  std::vector<double> rates;
  for (int i = 0; i < 4; ++i) {
    const double seconds = seconds_of([&] { at::mm_out(c, a, a); });
    if (i > 0) rates.push_back(2.0 * kSize * kSize * kSize / seconds);
  }
  return spread_of(rates).median;
}

// One line of the table; `published` and `own`: the turns of both.
void print_solver(const char* name, const std::vector<Timing>& published,
                  const std::vector<Timing>& own) {
  std::vector<double> totals;
  std::vector<double> factors;
  std::vector<double> ratios;
  for (size_t i = 0; i < own.size(); ++i) {
    totals.push_back(own[i].total);
    factors.push_back(own[i].factor);
    ratios.push_back(published[i].total / own[i].total);
  }
  const auto total = spread_of(totals);
  const auto ratio = spread_of(ratios);
  std::printf("%-15s %8.3f s [%.3f, %.3f]  (factor %6.3f s)  loss %.6g  %5.2fx [%.2f, %.2f]\n",
              name, total.median, total.least, total.most, spread_of(factors).median, own[0].loss,
              ratio.median, ratio.least, ratio.most);
}

Timing run_solver(const SweepProblem& problem, const at::Tensor& hessian, bool reference) {
  const double start = now();
  FactorFailure failure;
  auto prepared = prepare_hessian(hessian, 0.01, problem.method);
  const auto factor = reference ? factorize_reference(std::move(prepared), failure)
                                : factorize_fast(std::move(prepared), failure);
  if (!factor) std::abort();
  const double factored = now();
  const auto result = reference ? sweep_reference(problem, *factor, /*step_by_step=*/true)
                                : sweep_fast(problem, *factor);
  return {factored - start, now() - start, result.loss};
}

int run(int argc, char** argv) {
  const auto argument = [&](int index, int64_t value) {
    return argc > index ? std::atoll(argv[index]) : value;
  };
  const int64_t rows = argument(1, 4096);
  const int64_t columns = argument(2, 4096);
  const int64_t repetitions = argument(3, 3);
  at::manual_seed(1);
  const auto x =
      at::randn({2 * columns, columns}) + at::randn({2 * columns, 1}) * at::randn({columns});
  const auto hessian = at::mm(x.t(), x) / columns;
  const QuantConfig quant{
      .bits = 4, .group_size = argument(4, -1), .scale_dtype = ScaleDtype::kFloat32};
  MethodConfig method;
  bool only_fast = false;
  for (int i = 5; i < argc; ++i) {
    method.act_order |= std::string(argv[i]) == "act";
    only_fast |= std::string(argv[i]) == "only_fast";
  }
  CompatPolicy compat;
  compat.reference_group_grid = true;
  const SweepProblem problem{.layer = "bench",
                             .weights = at::randn({rows, columns}) * 0.02,
                             .rule = {quant, false},
                             .method = method,
                             .compat = compat};
  std::vector<std::pair<const char*, std::function<Timing()>>> solvers = {
      {"published loop",
       [&] {
         const double start = now();
         const double loss =
             published_loop(problem.weights, hessian, problem.rule, method.act_order);
         return Timing{0, now() - start, loss};
       }},
      {"fast", [&] { return run_solver(problem, hessian, false); }}};
  if (!only_fast)
    solvers.push_back({"reference", [&] { return run_solver(problem, hessian, true); }});

  std::printf("%lld x %lld, 4 bits, group %lld%s, float32, %d threads, median of %lld [range]\n",
              static_cast<long long>(rows), static_cast<long long>(columns),
              static_cast<long long>(quant.group_size), method.act_order ? ", act-order" : "",
              at::get_num_threads(), static_cast<long long>(repetitions));
  const double rate = product_rate();
  const auto n = static_cast<double>(columns);
  const double operations = static_cast<double>(rows) * n * n + n * n * n / 3;
  std::printf("at::mm float32: %.1f GFLOP/s; at that rate the products alone take %.3f s\n",
              rate / 1e9, operations / rate);
  std::vector<std::vector<Timing>> timings(solvers.size());
  for (int64_t repetition = 0; repetition < repetitions; ++repetition)
    for (size_t i = 0; i < solvers.size(); ++i) timings[i].push_back(solvers[i].second());
  for (size_t i = 0; i < solvers.size(); ++i) {
    print_solver(solvers[i].first, timings[0], timings[i]);
    if (!(std::abs(timings[i][0].loss / timings[0][0].loss - 1) <= 5e-3)) {
      std::printf("the losses disagree by more than 0.5 %%\n");
      return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace gptqb

int main(int argc, char** argv) { return gptqb::run(argc, argv); }
