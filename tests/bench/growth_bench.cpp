// OBQ, GPTQ and RTN on the same weights, Hessian and fixed grids: their errors side by side, and
// how their time grows with the size of a square layer (the paper's d_row d_col^3 against max(d_row
// d_col^2, d_col^3), section 3.3).
//
//   bench_growth [largest [sampled rows [repetitions]]]      defaults 1024 32 3
//
// CSV on stdout: one line per size and method. OBQ solves evenly spaced rows only and its time is
// that of the sample times rows / sampled, which `rows_solved` tells; errors and losses of all
// methods count those rows only. The best of `repetitions` counts. `ratio_*` are to GPTQ's; no
// direction is asked.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "methods/clock.h"
#include "methods/row_sample.h"

namespace gptqb {
namespace {

struct Measured {
  double seconds = 0;  // of the sampled rows; factorization and solving
  double error = 0;
};

double relative(const LayerResult& result) { return result.health.relative_error.value_or(NAN); }

Measured measure(const std::string& method, const LinearProblem& problem, int64_t repetitions) {
  const auto quantizer = quantizers().at(method).make();
  Measured best;
  for (int64_t i = 0; i < repetitions; ++i) {
    const auto result = quantizer->quantize(problem);
    const double seconds = result.health.seconds_factor + result.health.seconds_solve;
    if (i == 0 || seconds < best.seconds) best.seconds = seconds;
    best.error = relative(result);
  }
  return best;
}

int run(int argc, char** argv) {
  const auto argument = [&](int index, int64_t value) {
    return argc > index ? std::atoll(argv[index]) : value;
  };
  const int64_t largest = argument(1, 1024);
  const int64_t sampled = argument(2, 32);
  const int64_t repetitions = argument(3, 3);
  std::printf(
      "method,n,rows_solved,threads,seconds,seconds_all_rows,relative_error,ratio_error,"
      "ratio_seconds\n");
  for (int64_t n = 128; n <= largest; n *= 2) {
    at::manual_seed(n);
    const auto x =
        at::randn({4, n / 2, n}) * 0.3 + at::matmul(at::randn({4, n / 2, 4}), at::randn({4, n}));
    CalibrationStats stats(n, at::kCPU);
    stats.add(x);
    const auto weights = at::randn({n, n}) * 0.02;
    LinearProblem problem;
    problem.layer = "bench";
    problem.weight = weights;
    problem.stats = &stats;
    problem.quant = {.bits = 3, .group_size = -1};
    problem.method.static_groups = true;

    const int64_t solved = std::min(sampled, n);
    LinearProblem sample = problem;
    sample.weight = weights.index_select(0, evenly_spaced_rows(n, solved));
    // GPTQ's time is that of the whole layer, whose factor serves all rows; its error, like that of
    // the others, is that of the sampled rows.
    auto gptq = measure("gptq", problem, repetitions);
    gptq.error = measure("gptq", sample, 1).error;
    const auto obq = measure("obq", sample, repetitions);
    const auto rtn = measure("rtn", sample, 1);
    const double scale = static_cast<double>(n) / static_cast<double>(solved);
    const auto print = [&](const char* method, const Measured& measured, double all, int64_t rows) {
      std::printf("%s,%lld,%lld,%d,%.6g,%.6g,%.6g,%.4f,%.4g\n", method, static_cast<long long>(n),
                  static_cast<long long>(rows), at::get_num_threads(), measured.seconds, all,
                  measured.error, measured.error / gptq.error, all / gptq.seconds);
    };
    print("rtn", rtn, rtn.seconds * scale, solved);
    print("gptq", gptq, gptq.seconds, n);
    print("obq", obq, obq.seconds * scale, solved);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace gptqb

int main(int argc, char** argv) { return gptqb::run(argc, argv); }
