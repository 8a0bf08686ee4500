// How quickly layouts are packed and unpacked, in GB/s of codes, one byte each (issue 6: at least 2
// on each core, in and out).
//
//   bench_packing [N K [group_size [repetitions]]]     defaults 4096 4096 128 7
//
// For 1 thread and for all: median and range of each direction, natural and act-order; then the
// medians for each second of a core, which other work on the machine changes less.
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/bench/bench_clock.h"
#include "tests/support/matmul_problem.h"
#include "tests/support/packed_matrix.h"

namespace gptqb {
namespace {

void measure(const test::MatmulCase& of, const std::string& layout, int64_t repetitions) {
  const auto data = test::matmul_data(of);
  const test::PackedMatrix packed(data.view(), layout);
  auto back = data;
  const auto pack = [&] { packed.layout().pack(data.view(), packed.shape(), packed.parts()); };
  const auto unpack = [&] {
    packed.layout().unpack(
        packed.view(),
        {.codes = back.codes.data(), .scales = back.scales.data(), .zeros = back.zeros.data()});
  };
  const auto gigabytes = static_cast<double>(of.n * of.k) / 1e9;
  std::vector<double> in, out, in_of_core, out_of_core;
  for (int64_t i = 0; i <= repetitions; ++i) {
    double of_pack = 0, of_unpack = 0;
    const double cpu_of_pack = cpu_seconds_of([&] { of_pack = seconds_of(pack); });
    const double cpu_of_unpack = cpu_seconds_of([&] { of_unpack = seconds_of(unpack); });
    if (i == 0) continue;
    in.push_back(gigabytes / of_pack);
    out.push_back(gigabytes / of_unpack);
    in_of_core.push_back(gigabytes / cpu_of_pack);
    out_of_core.push_back(gigabytes / cpu_of_unpack);
  }
  const auto packing = spread_of(in);
  const auto unpacking = spread_of(out);
  std::printf(
      "%-5s %lld bits %-9s %d threads  in %5.2f GB/s [%.2f, %.2f]  out %5.2f [%.2f, %.2f]  "
      "a core in %5.2f out %5.2f%s\n",
      layout.c_str(), static_cast<long long>(of.bits),
      of.order == test::ColumnOrder::kNatural ? "natural" : "act-order", omp_get_max_threads(),
      packing.median, packing.least, packing.most, unpacking.median, unpacking.least,
      unpacking.most, spread_of(in_of_core).median, spread_of(out_of_core).median,
      back.codes == data.codes ? "" : "  WRONG");
}

int run(int argc, char** argv) {
  const auto number = [&](int index, int64_t value) {
    return argc > index ? std::atoll(argv[index]) : value;
  };
  const int threads = omp_get_max_threads();
  for (const char* layout : {"tiles", "rows"})
    for (const int64_t bits : {2, 3, 4, 8})
      for (const auto order : {test::ColumnOrder::kNatural, test::ColumnOrder::kActOrder})
        for (int count = 1; count <= threads; count += std::max(threads - 1, 1)) {
          omp_set_num_threads(count);
          measure({.n = number(1, 4096),
                   .k = number(2, 4096),
                   .bits = bits,
                   .group_size = number(3, 128),
                   .order = order},
                  layout, number(4, 7));
        }
  return 0;
}

}  // namespace
}  // namespace gptqb

int main(int argc, char** argv) { return gptqb::run(argc, argv); }
