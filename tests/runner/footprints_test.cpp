// Predicted memory of published models, against sizes that are known from elsewhere.
#include "runner/footprints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/runner/run_program.h"

namespace gptqb::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Footprint of(const std::string& name) {
  for (const Footprint& each : footprints())
    if (each.model == name) return each;
  throw Error("test", "expected a footprint of " + name + ", got none");
}

// Parameters as the checkpoints' repositories count them.
TEST(Footprints, HoldThePublishedNumberOfParameters) {
  EXPECT_EQ(of("llama-2-7b").parameters, 6738415616);
  EXPECT_EQ(of("llama-2-13b").parameters, 13015864320);
  EXPECT_EQ(of("llama-2-70b").parameters, 68976648192);
  EXPECT_EQ(of("mixtral-8x7b").parameters, 46702792704);
  EXPECT_FALSE(of("mixtral-8x7b").runs);
}

// By hand, of LLaMA-7B: 32 blocks of 4 x 4096^2 + 3 x 4096 x 11008 in 4 bits, 20 bits a group of
// 128 beside them; 2 x 32000 x 4096 and 65 norms of 4096 in 16 bits.
TEST(Footprints, CountLinearsAsTheirCodesAndGrids) {
  const double linears = 32.0 * (4.0 * 4096 * 4096 + 3.0 * 4096 * 11008);
  const double rest = 2.0 * 32000 * 4096 + 65 * 4096;
  const Footprint llama = of("llama-2-7b");
  EXPECT_DOUBLE_EQ(llama.float16_bytes(), 2 * (linears + rest));
  EXPECT_DOUBLE_EQ(llama.packed_bytes(4, 128), linears * (4 + 20.0 / 128) / 8 + 2 * rest);
  EXPECT_DOUBLE_EQ(llama.cache_bytes(2048), 2.0 * 2 * 32 * 4096 * 2048);
}

// The paper, section 5: 3-bit weights of OPT-175B take about 63 GB, its cache of 2048 tokens 9 GB.
TEST(Footprints, AgreeWithThePaper) {
  const Footprint opt = of("opt-175b");
  EXPECT_NEAR(opt.packed_bytes(3, 12288) / (int64_t{1} << 30), 63, 1.5);
  EXPECT_NEAR(opt.cache_bytes(2048) / (int64_t{1} << 30), 9, 0.1);
}

TEST(Footprints, AreListed) {
  const Outcome outcome = run_program({"list", "footprints"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("| llama-2-70b"), HasSubstr("Predicted from shapes"),
                                 HasSubstr("does not compute it")));
}

}  // namespace
}  // namespace gptqb::test
