// The packed product on the CPU, as a share of the bandwidth of a plain read of the same bytes by
// the same threads in the same run (issue 6: at least 60 % at M = 1, for all widths).
//
//   bench_matmul_cpu [kernel [N K [group_size [repetitions]]]]     defaults cpu_rows, both shapes
//   of
//                                                                  the issue, 128, 9
//
// Weights rotate through copies that together are larger than the caches. One line a width and M,
// in turns with the plain read: median microseconds with their range, GB/s of packed bytes, share
// of the plain read (median and range over the turns), and the product's rate.
#include <omp.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/read_bandwidth.h"
#include "kernels/timing.h"
#include "tests/bench/bench_clock.h"
#include "tests/support/matmul_problem.h"
#include "tests/support/packed_matrix.h"

namespace gptqb {
namespace {

using kernels::MatmulDevice;

// All bytes of `weight`, by all threads.
uint32_t read_once(const test::PackedMatrix& weight) {
  const int64_t threads = omp_get_max_threads();
  const int64_t part = weight.bytes().total() / threads / 64 * 64;
  uint32_t folded = 0;
#pragma omp parallel for reduction(^ : folded)
  for (int64_t i = 0; i < threads; ++i)
    folded ^= kernels::fold_words_cpu(weight.data() + i * part, part);
  return folded;
}

bool measure(const std::string& name, test::MatmulCase of, int64_t repetitions) {
  const auto kernel = kernels::matmul_kernels().at(name).make();
  of.m = 1;
  const auto data = test::matmul_data(of);
  std::vector<std::unique_ptr<test::PackedMatrix>> copies;
  do {
    copies.push_back(std::make_unique<test::PackedMatrix>(data.view(), kernel->layout()));
  } while (static_cast<int64_t>(copies.size()) <
           kernels::copies_beyond_cache(copies[0]->bytes().total(), kernels::cpu_cache_bytes()));
  const auto bytes = static_cast<double>(copies[0]->bytes().total());
  uint32_t folded = 0;
  for (const int64_t m : {1, 2, 4, 8, 16, 32}) {
    of.m = m;
    auto inputs = data;
    inputs.x = test::matmul_data({.m = m, .n = 1, .k = of.k}).x;
    const std::string refusal = kernel->refusal(inputs.problem(), MatmulDevice{});
    if (!refusal.empty()) {
      std::printf("%s\n", refusal.c_str());
      return false;
    }
    std::vector<uint16_t> y(static_cast<size_t>(m * of.n));
    std::vector<double> products;
    std::vector<double> reads;
    std::vector<double> shares;
    for (int64_t i = 0; i <= repetitions; ++i) {
      const double read = seconds_of([&] {
        for (const auto& copy : copies) folded ^= read_once(*copy);
      });
      const double product = seconds_of([&] {
        for (const auto& copy : copies)
          kernel->launch({.m = m, .weight = copy->view(), .x = inputs.x.data(), .y = y.data()},
                         nullptr);
      });
      if (i == 0) continue;
      const auto calls = static_cast<double>(copies.size());
      reads.push_back(read / calls);
      products.push_back(product / calls);
      shares.push_back(read / product);
    }
    const auto product = spread_of(products);
    const auto read = spread_of(reads);
    const auto share = spread_of(shares);
    std::printf(
        "%5lld x %5lld  %lld bits  M %2lld  %8.1f us [%.1f, %.1f]  %5.1f GB/s, plain read %5.1f: "
        "%3.0f %% [%.0f, %.0f]  %6.1f GFLOP/s\n",
        static_cast<long long>(of.n), static_cast<long long>(of.k), static_cast<long long>(of.bits),
        static_cast<long long>(m), product.median * 1e6, product.least * 1e6, product.most * 1e6,
        bytes / product.median / 1e9, bytes / read.median / 1e9, share.median * 100,
        share.least * 100, share.most * 100,
        2e-9 * static_cast<double>(m * of.n * of.k) / product.median);
    std::fflush(stdout);
  }
  return folded != 1;
}

int run(int argc, char** argv) {
  const auto number = [&](int index, int64_t value) {
    return argc > index ? std::atoll(argv[index]) : value;
  };
  const std::string kernel = argc > 1 ? argv[1] : "cpu_rows";
  std::vector<std::pair<int64_t, int64_t>> shapes = {{4096, 4096}, {4096, 11008}};
  if (argc > 3) shapes = {{number(2, 0), number(3, 0)}};
  std::printf("%s, groups of %lld, %d threads, median of %lld [range]\n", kernel.c_str(),
              static_cast<long long>(number(4, 128)), omp_get_max_threads(),
              static_cast<long long>(number(5, 9)));
  bool good = true;
  for (const auto& [n, k] : shapes)
    for (const int64_t bits : {2, 3, 4, 8})
      good = measure(kernel, {.n = n, .k = k, .bits = bits, .group_size = number(4, 128)},
                     number(5, 9)) &&
             good;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace gptqb

int main(int argc, char** argv) { return gptqb::run(argc, argv); }
