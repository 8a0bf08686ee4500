// Codes of a real model's layers, float32 against float64, on the calibration windows of an
// experiment (issue 5, to show, point 4; tests/support/code_comparison.h says what is compared).
//
//   bench_codes EXPERIMENT DEVICE BLOCKS CSV [KEY=VALUE ...]
//
//   bench_codes experiments/smollm2_135m.yaml cuda 0 codes.csv
//   bench_codes experiments/smollm2_135m.yaml cpu 1 codes.csv calibration.samples=8
//   model.dtype=float32
//
// Model and calibration are those of the experiment's first cell that calibrates, KEY=VALUE changes
// them as --set does; the data are in $GPTQ_BENCH_DATA. BLOCKS 0: all. A line per layer goes to
// CSV, a summary to stdout. Exits 1 if a bound is broken.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

#include "methods/clock.h"
#include "tests/support/code_comparison.h"
#include "tests/support/experiment_windows.h"

namespace gptqb {
namespace {

int run(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: bench_codes EXPERIMENT DEVICE BLOCKS CSV [KEY=VALUE ...]\n");
    return 2;
  }
  const std::string device = argv[2];
  const Stopwatch watch{at::Device(device)};
  LoadOptions options;
  options.set.assign(argv + 5, argv + argc);
  const auto inputs =
      test::inputs_of(load_experiments(argv[1], options), std::getenv("GPTQ_BENCH_DATA"), device);
  const auto rows = test::compare_codes(*inputs.model, inputs.windows, std::atoll(argv[3]),
                                        test::code_settings());
  std::ofstream csv(argv[4]);
  test::write_csv(rows, csv);
  std::printf("%lld windows of %lld tokens, %.1f s\n%s",
              static_cast<long long>(inputs.windows.size(0)),
              static_cast<long long>(inputs.windows.size(1)), watch.seconds(),
              test::summary_of(rows).c_str());
  const auto broken = test::broken_bounds(rows);
  for (const auto& what : broken) std::printf("BROKEN %s\n", what.c_str());
  std::printf(broken.empty() ? "all bounds hold\n" : "%zu bounds are broken\n", broken.size());
  return broken.empty() && csv.good() ? 0 : 1;
}

}  // namespace
}  // namespace gptqb

int main(int argc, char** argv) {
  try {
    return gptqb::run(argc, argv);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "bench_codes: %s\n", fault.what());
    return 2;
  }
}
