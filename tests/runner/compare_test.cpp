#include "runner/report/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

using test::metric;
using test::record;
using testing::HasSubstr;

const MetricChange& change_of(const Comparison& comparison, const std::string& name) {
  for (const MetricChange& change : comparison.changes)
    if (change.metric == name) return change;
  static const MetricChange kNone;
  ADD_FAILURE() << "no change of " << name;
  return kNone;
}

Record sample(std::vector<double> losses) { return record("g", "gptq", 4, 10, std::move(losses)); }

TEST(CompareTest, PairedLossesDecideAboutPerplexity) {
  const Record before = sample({1, 2, 3, 4});
  const Comparison worse = compare_records({before}, {sample({1.01, 2.011, 3.01, 4.009})});
  EXPECT_TRUE(worse.tripped());
  EXPECT_EQ(change_of(worse, "perplexity.wikitext2").change, Change::kWorse);
  EXPECT_EQ(change_of(worse, "perplexity.wikitext2").detail,
            "loss +0.0100 ± 0.0013 nats/token over 4 windows");
  const Comparison noise = compare_records({before}, {sample({1.01, 1.98, 3.01, 4.0})});
  EXPECT_FALSE(noise.tripped());
  EXPECT_EQ(change_of(noise, "perplexity.wikitext2").change, Change::kSame);
  const Comparison better = compare_records({before}, {sample({0.9, 1.9, 2.9, 3.9})});
  EXPECT_EQ(change_of(better, "perplexity.wikitext2").change, Change::kBetter);
  // Certain, but too small to matter: another order of summation does this.
  EXPECT_FALSE(compare_records({before}, {sample({1.00001, 2.00001, 3.00001, 4.00001})}).tripped());
}

TEST(CompareTest, OtherWindowsAreNotCompared) {
  Record after = sample({9, 9, 9, 9});
  after.inputs.windows[0].ids_sha256 = "other";
  const Comparison comparison = compare_records({sample({1, 2, 3, 4})}, {after});
  EXPECT_EQ(change_of(comparison, "perplexity.wikitext2").change, Change::kNotComparable);
  EXPECT_FALSE(comparison.tripped());
}

TEST(CompareTest, DivergencesArePairedOnTheirOwnWindows) {
  const auto sample_with = [](std::vector<double> kl, std::vector<double> agreement) {
    Record result = sample({1, 2, 3, 4});
    result.metrics = {metric("divergence.my.text.mean_kl", 1, std::move(kl)),
                      metric("divergence.my.text.top1_agreement", 1, std::move(agreement))};
    WindowsRecord windows = result.inputs.windows[0];
    windows.name = "my.text";
    windows.evaluator = "divergence";
    result.inputs.windows = {windows};
    return result;
  };
  const Record before = sample_with({0.1, 0.2, 0.3}, {0.8, 0.7, 0.6});
  Record after = sample_with({0.11, 0.212, 0.31}, {0.79, 0.688, 0.59});
  const Comparison worse = compare_records({before}, {after});
  EXPECT_EQ(change_of(worse, "divergence.my.text.mean_kl").change, Change::kWorse);
  EXPECT_EQ(change_of(worse, "divergence.my.text.top1_agreement").change, Change::kWorse);
  EXPECT_EQ(change_of(compare_records({after}, {before}), "divergence.my.text.mean_kl").change,
            Change::kBetter);
  after.inputs.windows[0].ids_sha256 = "other";
  EXPECT_EQ(change_of(compare_records({before}, {after}), "divergence.my.text.mean_kl").change,
            Change::kNotComparable);
}

TEST(CompareTest, TimesHaveAWiderThresholdAndNeedTheSameDevice) {
  Record before = sample({1, 2});
  Record after = sample({1, 2});
  before.metrics.push_back(metric("seconds.quantize", 10));
  after.metrics.push_back(metric("seconds.quantize", 10.9));
  EXPECT_FALSE(compare_records({before}, {after}).tripped());
  after.metrics.back().value = 11.5;
  EXPECT_TRUE(compare_records({before}, {after}).tripped());
  after.environment.gpu = "another";
  EXPECT_EQ(change_of(compare_records({before}, {after}), "seconds.quantize").change,
            Change::kNotComparable);
}

// Phases of milliseconds differ by tens of percent between two runs of one program.
TEST(CompareTest, ShortTimesAreNoise) {
  Record before = sample({1, 2});
  Record after = sample({1, 2});
  before.metrics.push_back(metric("seconds.forward", 0.04));
  after.metrics.push_back(metric("seconds.forward", 0.09));
  EXPECT_FALSE(compare_records({before}, {after}).tripped());
}

TEST(CompareTest, DirectionFollowsTheMetric) {
  Record before = sample({1, 2});
  Record after = sample({1, 2});
  before.metrics.push_back(metric("decode.tokens_per_second", 100));
  after.metrics.push_back(metric("decode.tokens_per_second", 150));
  EXPECT_EQ(change_of(compare_records({before}, {after}), "decode.tokens_per_second").change,
            Change::kBetter);
}

// The fastest kernel of a problem before against the fastest now, on the same device.
TEST(CompareTest, KernelsAreComparedByTheTimeOfAProblem) {
  const auto sample_of = [](std::vector<std::pair<std::string, double>> times) {
    Record result = record("k", "none", 0, 1, {});
    result.metrics = {metric("kernels.read.gb_per_s", 4000)};
    for (const auto& [kernel, us] : times) {
      KernelRow row;
      row.kernel = kernel;
      row.k = row.n = 64;
      row.m = 1;
      row.bits = 4;
      row.dtype = "float16";
      row.us = us;
      result.kernels.push_back(row);
    }
    return result;
  };
  const std::string name = "us 64 x 64, M 1, 4 bits, row, asym, float16";
  const Record before = sample_of({{"a", 10}, {"b", 20}});
  const auto worse = compare_records({before}, {sample_of({{"a", 20}, {"b", 12}})});
  EXPECT_EQ(change_of(worse, name).change, Change::kWorse);
  EXPECT_THAT(change_of(worse, name).detail, HasSubstr("a before, now b"));
  EXPECT_EQ(change_of(compare_records({before}, {sample_of({{"c", 10.5}})}), name).change,
            Change::kSame);
  EXPECT_EQ(change_of(compare_records({before}, {sample_of({{"a", 5}})}), name).change,
            Change::kBetter);
  EXPECT_TRUE(compare_records({before}, {sample_of({})}).tripped());
  Record elsewhere = sample_of({{"a", 50}});
  elsewhere.environment.gpu = "another";
  elsewhere.metrics[0].value = 100;
  EXPECT_FALSE(compare_records({before}, {elsewhere}).tripped());
  Record slower = before;
  slower.metrics[0].value = 3000;
  EXPECT_EQ(change_of(compare_records({before}, {slower}), "kernels.read.gb_per_s").change,
            Change::kWorse);
}

TEST(CompareTest, WhatIsGoneTripsTheGateAndWhatIsNewDoesNot) {
  const Record cell = sample({1, 2});
  EXPECT_TRUE(compare_records({cell}, {}).tripped());
  EXPECT_FALSE(compare_records({}, {cell}).tripped());
  Record failed = cell;
  failed.status = CellStatus::kFailed;
  failed.reason = "out of memory";
  const Comparison comparison = compare_records({cell}, {failed});
  EXPECT_EQ(change_of(comparison, "status").change, Change::kWorse);
  EXPECT_FALSE(compare_records({failed}, {failed}).tripped());
  EXPECT_EQ(change_of(compare_records({failed}, {cell}), "status").change, Change::kBetter);
}

TEST(CompareTest, TextCountsWhatIsSameAndListsTheRest) {
  const Record cell = sample({1, 2});
  EXPECT_EQ(comparison_text(compare_records({cell}, {cell})),
            "1 cells in both, 1 metrics unchanged within noise, the gate holds\n");
  const std::string text = comparison_text(compare_records({cell}, {}));
  EXPECT_THAT(text,
              HasSubstr("0 cells in both, 0 metrics unchanged within noise, the gate TRIPPED\n"));
  EXPECT_THAT(text,
              HasSubstr("| g    | gptq 4 bits, whole rows | status | ok     |       | MISSING |"));
}

TEST(CompareTest, JunitHasAFailureForEachRegression) {
  Record before = sample({1, 2, 3});
  before.settings[1].second = "a<b>&\"c\"";
  Record after = before;
  after.metrics[0].samples = {1.5, 2.5, 3.5};
  after.metrics[0].value = 16;
  EXPECT_EQ(junit_xml(compare_records({before}, {after})),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuite name=\"gptq-bench compare\" tests=\"1\" failures=\"1\">\n"
            "  <testcase classname=\"g a&lt;b&gt;&amp;&quot;c&quot; 4 bits, whole rows\" "
            "name=\"perplexity.wikitext2\">\n"
            "    <failure message=\"WORSE: before 10, after 16; loss +0.500 ± 0 nats/token over 3 "
            "windows\"/>\n"
            "  </testcase>\n"
            "</testsuite>\n");
}

}  // namespace
}  // namespace gptqb
