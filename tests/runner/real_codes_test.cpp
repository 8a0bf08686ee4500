// Codes of a trained model's layers, float32 against float64. The same for SmolLM2 on a GPU:
// tests/gpu/real_codes_cuda_test.cpp; for any model: tests/bench/codes_bench.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/code_comparison.h"
#include "tests/support/experiment_windows.h"
#include "tests/support/solve.h"
#include "tests/support/stories260k.h"
#include "tests/support/temporary_folder.h"

namespace gptqb::test {
namespace {

TEST(RealCodes, Stories260kInFloat32AgreeWithFloat64) {
  GPTQB_REQUIRE_PATH(stories260k_source());
  GPTQB_REQUIRE_PATH(tinystories_sample());
  const TemporaryFolder folder;
  ASSERT_TRUE(make_stories260k(folder.path() / "model"));
  const std::string experiment =
      "name: stories\n"
      "model: {path: \"" +
      (folder.path() / "model").string() +
      "\", dtype: float32}\n"
      "calibration:\n"
      "  dataset: {name: tinystories, source: \"text:" +
      tinystories_sample().string() +
      "\"}\n"
      "  samples: 32\n"
      "  seqlen: 256\n"
      "  heldout: 0\n"
      "method: {name: gptq}\n";
  const auto inputs =
      inputs_of(parse_experiments(experiment, "stories"), nullptr, device_under_test().str());
  const auto rows = compare_codes(*inputs.model, inputs.windows, 0, code_settings());
  EXPECT_THAT(broken_bounds(rows), testing::IsEmpty()) << summary_of(rows);
  CodeTotals exact;
  for (const auto& row : rows)
    if (row.run == kFloat64Run) exact.add(row);
  EXPECT_EQ(exact.layers, 4 * 5 * 7);
  EXPECT_EQ(exact.fed_differ, 0) << "of " << exact.codes;
}

CodeRow row_of(const std::string& run, int64_t fed_differ, int64_t free_differ, double loss) {
  CodeRow row;
  row.layer = "layer";
  row.setting = "setting";
  row.run = run;
  row.fed = {.codes = 20000, .differ = fed_differ, .loss = loss};
  row.free_differ = free_differ;
  row.loss_float64 = 100;
  row.loss_published = 101;
  return row;
}

TEST(RealCodes, EachBoundIsOfTheFastSolverWithFloat32Products) {
  const auto broken = [](std::vector<CodeRow> rows) {
    rows.push_back(row_of(kPublishedRun, 5, 100, 101));
    return broken_bounds(rows);
  };
  EXPECT_THAT(broken({row_of("fast tf32x3", 2, 130, 100.6)}), testing::IsEmpty());
  EXPECT_THAT(broken({row_of("fast tf32", 500, 5000, 90)}), testing::IsEmpty());
  EXPECT_THAT(broken({row_of("fast fp32", 3, 0, 101)}),
              testing::ElementsAre(testing::HasSubstr("3 of 20000")));
  EXPECT_THAT(broken({row_of("fast fp32", 0, 131, 101)}),
              testing::ElementsAre(testing::HasSubstr("1.3 times")));
  EXPECT_THAT(broken({row_of("fast fp32", 0, 0, 100.4)}),
              testing::ElementsAre(testing::HasSubstr("of the published loop's")));
  EXPECT_THAT(broken({row_of("fast fp32", 0, 0, 101.4)}),
              testing::ElementsAre(testing::HasSubstr("of float64's")));
  CodeRow unexplained = row_of("fast fp32", 1, 0, 101);
  unexplained.fed.unexplained = 1;
  EXPECT_THAT(broken({unexplained}), testing::ElementsAre(testing::HasSubstr("rounding")));
  CodeRow reported = row_of("fast fp32", 0, 0, 101);
  reported.reported_loss = 102;
  EXPECT_THAT(broken({reported}), testing::SizeIs(2));
}

}  // namespace
}  // namespace gptqb::test
