#include "runner/verdict.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

using test::metric;
using test::record;

Expectation expect_value(double value, std::optional<double> absolute,
                         std::optional<double> relative = std::nullopt) {
  Expectation expectation;
  expectation.metric = "perplexity.wikitext2";
  expectation.value = value;
  expectation.tolerance_absolute = absolute;
  expectation.tolerance_relative = relative;
  expectation.source = "a paper";
  return expectation;
}

Verdict judged(const Expectation& expectation, double measured) {
  const Record sample = record("abc", "gptq", 4, measured, {1.7});
  return judge(expectation, "abc", "tiny", &sample);
}

TEST(VerdictTest, AbsoluteToleranceHoldsUpToItsBorder) {
  const Verdict verdict = judged(expect_value(5.85, 0.05), 5.88);
  EXPECT_EQ(verdict.outcome, Outcome::kPass);
  EXPECT_EQ(verdict.expected, "5.85 +- 0.05");
  EXPECT_NEAR(*verdict.deviation, 0.03, 1e-12);
  EXPECT_EQ(verdict.deviation_text, "+0.0300 (+0.51 %)");
  EXPECT_EQ(verdict.source, "a paper");
  EXPECT_EQ(judged(expect_value(5.85, 0.05), 5.90).outcome, Outcome::kPass);
  const Verdict outside = judged(expect_value(5.85, 0.05), 5.7);
  EXPECT_EQ(outside.outcome, Outcome::kFail);
  EXPECT_EQ(outside.reason, "off by -0.150 (-2.6 %)");
}

TEST(VerdictTest, RelativeTolerance) {
  EXPECT_EQ(judged(expect_value(200, std::nullopt, 0.005), 200.9).outcome, Outcome::kPass);
  EXPECT_EQ(judged(expect_value(200, std::nullopt, 0.005), 198.9).outcome, Outcome::kFail);
  EXPECT_EQ(judged(expect_value(200, std::nullopt, 0.005), 200).expected, "200 +- 0.500 %");
}

TEST(VerdictTest, Bounds) {
  Expectation most;
  most.metric = "perplexity.wikitext2";
  most.at_most = 15;
  EXPECT_EQ(judged(most, 15).outcome, Outcome::kPass);
  EXPECT_EQ(judged(most, 15.1).outcome, Outcome::kFail);
  EXPECT_EQ(judged(most, 15.1).expected, "at most 15");
  Expectation least;
  least.metric = "perplexity.wikitext2";
  least.at_least = 2;
  EXPECT_EQ(judged(least, 3).outcome, Outcome::kPass);
  EXPECT_EQ(judged(least, 1).outcome, Outcome::kFail);
}

TEST(VerdictTest, WithoutANumberThereIsAReason) {
  const Expectation expectation = expect_value(5.85, 0.05);
  EXPECT_EQ(judge(expectation, "abc", "tiny", nullptr).reason, "the cell has not run");
  Record sample = record("abc", "gptq", 4, 5.85, {1.7});
  sample.status = CellStatus::kSkipped;
  sample.reason = "not supported yet: method.order greedy";
  EXPECT_EQ(judge(expectation, "abc", "tiny", &sample).outcome, Outcome::kNotSupported);
  sample.reason = "not run: model: expected the folder";
  EXPECT_EQ(judge(expectation, "abc", "tiny", &sample).outcome, Outcome::kNotRun);
  sample.status = CellStatus::kFailed;
  sample.reason = "out of memory";
  const Verdict failed = judge(expectation, "abc", "tiny", &sample);
  EXPECT_EQ(failed.outcome, Outcome::kNotRun);
  EXPECT_EQ(failed.reason, "the cell failed: out of memory");
  EXPECT_FALSE(failed.measured);
  const Record other = record("abc", "gptq", 4, 5.85, {1.7});
  Expectation ptb = expectation;
  ptb.metric = "perplexity.ptb";
  EXPECT_EQ(judge(ptb, "abc", "tiny", &other).reason, "the record has no such metric");
  EXPECT_EQ(judge(ptb, "abc", "tiny", &other).outcome, Outcome::kFail)
      << "a misspelt gate must not pass";
}

TEST(VerdictTest, ANumberThatIsNotFiniteFails) {
  const Verdict verdict =
      judged(expect_value(5.85, 1e300), std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(verdict.outcome, Outcome::kFail);
  EXPECT_EQ(verdict.reason, "measured nan");
}

TEST(VerdictTest, PublishedTimesGetARatioAndOwnTargetsAVerdict) {
  Record sample = record("abc", "gptq", 4, 5.85, {1.7});
  sample.metrics.push_back(metric("seconds.quantize", 30));
  Expectation published;
  published.metric = "seconds.quantize";
  published.value = 20;
  published.tolerance_relative = 0.1;
  const Verdict verdict = judge(published, "abc", "tiny", &sample);
  EXPECT_EQ(verdict.outcome, Outcome::kNotComparable);
  EXPECT_EQ(verdict.deviation_text, "1.50 x");
  EXPECT_EQ(verdict.reason, "a time on another device; here: Test CPU (2 threads)");
  Expectation target;
  target.metric = "seconds.quantize";
  target.at_most = 40;
  EXPECT_EQ(judge(target, "abc", "tiny", &sample).outcome, Outcome::kPass);
}

// Weights from a seed say nothing of quality, and all of time and memory.
TEST(VerdictTest, TimesOfSyntheticWeightsAreJudged) {
  Record sample = record("abc", "gptq", 4, 5.85, {1.7});
  sample.settings.emplace_back("model.synthetic.like", "llama-7b");
  sample.metrics.push_back(metric("seconds.quantize", 30));
  Expectation published;
  published.metric = "seconds.quantize";
  published.value = 20;
  EXPECT_EQ(judge(published, "abc", "tiny", &sample).deviation_text, "1.50 x");
  Expectation target;
  target.metric = "seconds.quantize";
  target.at_most = 25;
  EXPECT_EQ(judge(target, "abc", "tiny", &sample).outcome, Outcome::kFail);
}

TEST(VerdictTest, SyntheticWeightsAreNotComparable) {
  Record sample = record("abc", "gptq", 4, 5.85, {1.7});
  sample.settings.emplace_back("model.synthetic.like", "llama-7b");
  EXPECT_EQ(judge(expect_value(5.85, 0.05), "abc", "tiny", &sample).outcome,
            Outcome::kNotComparable);
}

TEST(VerdictTest, OtherDataAreNotComparable) {
  Expectation expectation = expect_value(26.56, std::nullopt, 0.005);
  expectation.variant = "a demo sample of C4";
  expectation.note = "Table 9 prints 26.57";
  const Verdict near = judged(expectation, 26.56);
  EXPECT_EQ(near.outcome, Outcome::kNotComparable) << "equal by chance is no PASS";
  EXPECT_EQ(near.reason, "a demo sample of C4");
  EXPECT_EQ(near.source, "a paper; Table 9 prints 26.57");
  EXPECT_EQ(judged(expectation, 99).outcome, Outcome::kNotComparable);
  expectation.metric = "perplexity.c4";
  EXPECT_EQ(judged(expectation, 99).outcome, Outcome::kNotComparable) << "it has no such metric";
  Record sample = record("abc", "gptq", 4, 5.85, {1.7});
  sample.expectations = {expectation};
  EXPECT_EQ(record_from_json(to_json(sample), "x.json").expectations[0].variant,
            "a demo sample of C4");
}

TEST(VerdictTest, PublishedLatenciesGetARatio) {
  Record sample = record("abc", "gptq", 4, 5.85, {1.7});
  sample.metrics.push_back(metric("decode.ms_per_token", 35.5));
  Expectation published;
  published.metric = "decode.ms_per_token";
  published.value = 71;
  EXPECT_EQ(judge(published, "abc", "tiny", &sample).outcome, Outcome::kNotComparable);
  EXPECT_EQ(judge(published, "abc", "tiny", &sample).deviation_text, "0.500 x");
}

TEST(VerdictTest, RecordsCarryWhatTheyAreHeldAgainst) {
  Record sample = record("abc", "gptq", 4, 5.88, {1.7});
  sample.expectations = {expect_value(5.85, 0.05)};
  const std::vector<Verdict> verdicts =
      judge_records({record_from_json(to_json(sample), "x.json")});
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].outcome, Outcome::kPass);
  EXPECT_EQ(verdicts[0].expected, "5.85 +- 0.05");
  EXPECT_EQ(verdicts[0].experiment, "tiny");
}

TEST(VerdictTest, OnlyAFailureTripsTheExitCode) {
  Verdict pass, fail, absent;
  pass.outcome = Outcome::kPass;
  fail.outcome = Outcome::kFail;
  EXPECT_FALSE(any_failed({pass, absent}));
  EXPECT_TRUE(any_failed({pass, fail}));
}

}  // namespace
}  // namespace gptqb
