// Issue 5, to show, point 4: GPU codes of all layers of SmolLM2-135M against float64.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/support/code_comparison.h"
#include "tests/support/experiment_windows.h"
#include "tests/support/shared.h"

namespace gptqb::test {
namespace {

// On the calibration windows of the published runs. With $GPTQ_BENCH_CODES_CSV a line per layer
// goes there.
TEST(RealCodesCuda, SmolLm2InFloat32AgreesWithFloat64) {
  GPTQB_REQUIRE_PATH(smollm2_folder());
  const char* named = std::getenv("GPTQ_BENCH_DATA");
  const std::filesystem::path data = named != nullptr ? named : shared_root() / "data";
  GPTQB_REQUIRE_PATH(data / "wikitext-2-raw");
  const auto inputs = inputs_of(load_experiments(GPTQB_SOURCE_DIR "/experiments/smollm2_135m.yaml"),
                                data.c_str(), "cuda:0");
  const auto rows = compare_codes(*inputs.model, inputs.windows, 0, code_settings());
  std::printf("%s", summary_of(rows).c_str());
  if (const char* path = std::getenv("GPTQ_BENCH_CODES_CSV")) {
    std::ofstream csv(path);
    write_csv(rows, csv);
  }
  EXPECT_THAT(broken_bounds(rows), testing::IsEmpty());
  CodeTotals tested;
  for (const auto& row : rows)
    if (row.run == "fast tf32x3") tested.add(row);
  EXPECT_EQ(tested.layers, 4 * 210);
}

}  // namespace
}  // namespace gptqb::test
