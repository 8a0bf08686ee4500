// Models that others trained, against values that others measured. They need ../shared and
// scripts/get_smollm2.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <sstream>

#include "common/atomic_file.h"
#include "eval/window_loss.h"
#include "runner/cli.h"
#include "runner/verdict.h"
#include "tests/support/shared.h"
#include "tests/support/stories260k.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;

class RealModels : public testing::Test {
 protected:
  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

// shared/data/README.md: 1.72 nats a token over the first 511 tokens of the sample, by llama2.c's
// own arithmetic.
TEST_F(RealModels, Stories260kGivesItsPublishedLoss) {
  const fs::path sample = test::tinystories_sample();
  GPTQB_REQUIRE_PATH(test::stories260k_source());
  GPTQB_REQUIRE_PATH(sample);
  ASSERT_TRUE(test::make_stories260k(folder_ / "model"));
  const auto tokenizer = open_tokenizer(folder_ / "model");
  std::vector<int32_t> ids = tokenizer->encode_with_special(read_file(sample).substr(0, 4000));
  ASSERT_GE(ids.size(), 512u);
  TokenWindows windows;
  windows.dataset = "tinystories";
  windows.count = 1;
  windows.seqlen = 512;  // BOS and 511 tokens that are predicted
  windows.ids.assign(ids.begin(), ids.begin() + 512);
  const auto model = open_model(folder_ / "model", {.dtype = "float32"});
  EXPECT_NEAR(window_losses(*model, windows, {}).at(0), 1.72, 0.005);
}

// shared/reference/smollm2.json: the published code on the first 8 windows, float32, CPU; dense and
// RTN.
TEST_F(RealModels, SmolLm2GivesThePublishedCodesValuesOnTheCpu) {
  GPTQB_REQUIRE_PATH(test::smollm2_folder());
  GPTQB_REQUIRE_PATH(test::shared_root() / "data/wikitext-2-raw");
  setenv("GPTQ_BENCH_DATA", (test::shared_root() / "data").c_str(), 1);
  std::ostringstream out, err;
  const int code =
      command_line({"gptq-bench", "run", GPTQB_SOURCE_DIR "/experiments/smollm2_cpu.yaml",
                    "--output", folder_.string()},
                   out, err);
  EXPECT_EQ(code, kExitOk) << out.str() << err.str();
  const std::vector<Record> records = load_records(folder_).records;
  const std::vector<Verdict> verdicts = judge_records(records);
  EXPECT_EQ(verdicts.size(), 4u);
  for (const Verdict& verdict : verdicts)
    EXPECT_EQ(verdict.outcome, Outcome::kPass) << verdict.where << verdict.reason;
  // The loss of each window, dense.
  const std::vector<double> expected = {2.717725, 3.154019, 3.49966,  3.365212,
                                        3.092054, 2.734255, 2.219381, 2.829883};
  const std::vector<double> losses = find_metric(records.at(0), "perplexity.wikitext2")->samples;
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], expected[i], 1e-3) << "window " << i;
}

}  // namespace
}  // namespace gptqb
