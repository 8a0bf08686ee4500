#include "runner/report/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/statistics.h"
#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

using test::metric;
using test::record;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

const MetricChange& change_of(const Comparison& comparison, const std::string& name) {
  for (const MetricChange& change : comparison.changes)
    if (change.metric == name) return change;
  static const MetricChange kNone;
  ADD_FAILURE() << "no change of " << name;
  return kNone;
}

Record sample(std::vector<double> losses) { return record("g", "gptq", 4, 10, std::move(losses)); }

// The perplexity that these losses have.
Record scored(const std::vector<double>& losses) {
  Record result = sample(losses);
  result.metrics[0].value = std::exp(estimate_mean(losses).mean);
  return result;
}

TEST(CompareTest, APerplexityMustBeWorseByMoreThanAllowedAndSurely) {
  const Record before = scored({1, 2, 3, 4});
  const auto changed = [&](const std::vector<double>& losses, const CompareOptions& options = {}) {
    return change_of(compare_records({before}, {scored(losses)}, options), "perplexity.wikitext2");
  };
  // 1 %, and the windows agree.
  const MetricChange worse = changed({1.01, 2.011, 3.01, 4.009});
  EXPECT_EQ(worse.change, Change::kWorse);
  EXPECT_EQ(worse.detail,
            "+1.01 %, allowed 0.024; loss +0.0100 ± 0.0013 nats/token over 4 windows");
  EXPECT_EQ(changed({0.9, 1.9, 2.9, 3.9}).change, Change::kBetter);
  // 0.1 %, as sure: within the tolerance of 0.2 %.
  EXPECT_EQ(changed({1.001, 2.001, 3.001, 4.001}).change, Change::kSame);
  EXPECT_EQ(changed({1.001, 2.001, 3.001, 4.001}, {.relative_tolerance = 0}).change,
            Change::kWorse);
  // Another order of summation does this.
  EXPECT_EQ(changed({1.00001, 2.00001, 3.00001, 4.00001}, {.relative_tolerance = 0}).change,
            Change::kSame);
  // 0.5 %, but windows disagree: rounding of another device does that.
  EXPECT_EQ(changed({1.05, 1.96, 3.03, 3.98}).change, Change::kUnclear);
  EXPECT_EQ(changed({1.05, 1.96, 3.03, 3.98}, {.relative_tolerance = 0.01}).change, Change::kSame);
  // exp(2.5) = 12.18: half of a unit is 4 %.
  EXPECT_EQ(changed({1.03, 2.03, 3.03, 4.03}, {.absolute_tolerance = 0.5}).change, Change::kSame);
  EXPECT_EQ(changed({1.05, 2.05, 3.05, 4.05}, {.absolute_tolerance = 0.5}).change, Change::kWorse);
  // One window broke. The mean is unsure, the fault is not.
  EXPECT_EQ(changed({1, 2, 3, 9}).change, Change::kWorse);
}

TEST(CompareTest, TheWorstOfRepeatedRunsIsJudged) {
  const Record good = scored({1, 2, 3, 4}), bad = scored({1.1, 2.1, 3.1, 4.1});
  EXPECT_TRUE(compare_records({good}, {good, bad, good}).tripped());
  Record failed = good;
  failed.status = CellStatus::kFailed;
  EXPECT_EQ(change_of(compare_records({good, good}, {good, failed}), "status").change,
            Change::kWorse);
}

TEST(CompareTest, WhatChangedAroundTheNumbersComesFirst) {
  Record before = scored({1, 2}), after = before;
  EXPECT_THAT(comparison_text(compare_records({before}, {after})),
              StartsWith("Same environment: Test CPU (2 threads), gptq-bench 0.1.0"));
  after.environment.gpu_driver = "570.2";
  before.environment.gpu_driver = "570.1";
  after.environment.build.commit = "fedcba9876543210";
  after.environment.threads = 4;
  after.environment.libraries["torch"] = "2.12";
  after.inputs.model_fingerprint = "other";
  before.inputs.model_fingerprint = "one";
  const Comparison comparison = compare_records({before}, {after});
  std::vector<std::string> names;
  for (const EnvironmentChange& change : comparison.environment) names.push_back(change.what);
  EXPECT_THAT(names, testing::ElementsAre("driver", "threads", "commit", "model files of m",
                                          "library torch"));
  EXPECT_THAT(comparison_text(comparison),
              AllOf(StartsWith("| what changed around the numbers"),
                    HasSubstr("| driver                          | 570.1            | 570.2 ")));
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
    const double mean_kl = estimate_mean(kl).mean, mean = estimate_mean(agreement).mean;
    result.metrics = {metric("divergence.my.text.mean_kl", mean_kl, std::move(kl)),
                      metric("divergence.my.text.max_kl", 10 * mean_kl),
                      metric("divergence.my.text.top1_agreement", mean, std::move(agreement))};
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
  EXPECT_EQ(change_of(worse, "divergence.my.text.max_kl").change, Change::kNotComparable);
  after.inputs.windows[0].ids_sha256 = "other";
  EXPECT_EQ(change_of(compare_records({before}, {after}), "divergence.my.text.mean_kl").change,
            Change::kNotComparable);
}

// Five runs each: records of one id.
std::vector<Record> timed_runs(double factor, const std::string& metric_name = "seconds.quantize") {
  std::vector<Record> result;
  for (double seconds : {10.0, 10.1, 10.05, 10.2, 10.15}) {
    result.push_back(sample({1, 2}));
    result.back().metrics.push_back(metric(metric_name, factor * seconds));
    result.back().seconds["cell"] = factor * seconds;
  }
  return result;
}

TEST(CompareTest, TimesAreJudgedByRepeatedRunsOnOneDevice) {
  const Comparison slower = compare_records(timed_runs(1), timed_runs(1.1));
  EXPECT_TRUE(slower.tripped());
  EXPECT_EQ(slower.cells, 1);
  EXPECT_EQ(slower.old_runs, 5);
  EXPECT_EQ(change_of(slower, "seconds.quantize").change, Change::kSlower);
  EXPECT_EQ(change_of(slower, "seconds.quantize").detail, "x1.10 [1.08, 1.12] by 5 and 5 runs");
  EXPECT_EQ(change_of(compare_records(timed_runs(1.1), timed_runs(1)), "seconds.quantize").change,
            Change::kFaster);
  EXPECT_FALSE(compare_records(timed_runs(1), timed_runs(1.02)).tripped());
  // One run each tells nothing of noise.
  const Comparison single = compare_records({timed_runs(1)[0]}, {timed_runs(2)[0]});
  EXPECT_FALSE(single.tripped());
  EXPECT_EQ(change_of(single, "seconds.quantize").change, Change::kUnclear);

  std::vector<Record> elsewhere = timed_runs(2);
  elsewhere[3].environment.gpu = "another";
  EXPECT_EQ(change_of(compare_records(timed_runs(1), elsewhere), "seconds.quantize").change,
            Change::kNotComparable);
  std::vector<Record> resumed = timed_runs(2);
  resumed[3].resumed_blocks = 1;
  EXPECT_EQ(change_of(compare_records(timed_runs(1), resumed), "seconds.quantize").detail,
            "a resumed run times only its rest");
  EXPECT_EQ(change_of(compare_records(timed_runs(1, "seconds.quantize_planned"),
                                      timed_runs(2, "seconds.quantize_planned")),
                      "seconds.quantize_planned")
                .detail,
            "an estimate");
}

// A record that two experiments share is no second run.
TEST(CompareTest, ACopiedRecordCountsOnce) {
  std::vector<Record> before, after;
  for (int copy = 0; copy < 5; ++copy) {
    before.push_back(timed_runs(1)[0]);
    after.push_back(timed_runs(2)[0]);
    before.back().environment.time = after.back().environment.time = "2026-11-30T20:00:00Z";
  }
  EXPECT_EQ(compare_records(before, after).old_runs, 1);
  EXPECT_FALSE(compare_records(before, after).tripped());
}

// Phases of milliseconds differ by tens of percent between two runs of one program.
TEST(CompareTest, ShortTimesAreNoise) {
  std::vector<Record> before, after;
  for (int run = 0; run < 5; ++run) {
    before.push_back(sample({1, 2}));
    after.push_back(sample({1, 2}));
    before.back().metrics.push_back(metric("seconds.forward", 0.020 + 0.0001 * run));
    after.back().metrics.push_back(metric("seconds.forward", 0.060 + 0.0001 * run));
  }
  EXPECT_FALSE(compare_records(before, after).tripped());
  EXPECT_TRUE(compare_records(before, after, {.smallest_seconds = 0.001}).tripped());
}

TEST(CompareTest, DirectionFollowsTheMetric) {
  EXPECT_EQ(change_of(compare_records(timed_runs(1, "decode.tokens_per_second"),
                                      timed_runs(1.5, "decode.tokens_per_second")),
                      "decode.tokens_per_second")
                .change,
            Change::kFaster);
}

// The fastest kernel of a problem before against the fastest now, on the same device.
TEST(CompareTest, KernelsAreComparedByTheTimeOfAProblem) {
  // Five runs; in each the kernels' medians, a little apart from run to run.
  const auto runs_of = [](const std::vector<std::pair<std::string, double>>& times,
                          double rate = 4000) {
    std::vector<Record> result;
    for (int run = 0; run < 5; ++run) {
      result.push_back(record("k", "none", 0, 1, {}));
      result.back().metrics = {metric("kernels.read.gb_per_s", rate + run)};
      for (const auto& [kernel, us] : times) {
        KernelRow row;
        row.kernel = kernel;
        row.k = row.n = 64;
        row.m = 1;
        row.bits = 4;
        row.dtype = "float16";
        row.us = us * (1 + 0.002 * run);
        row.samples = {row.us, 0.9 * row.us, 2 * row.us};
        result.back().kernels.push_back(row);
      }
    }
    return result;
  };
  const std::string name = "us 64 x 64, M 1, 4 bits, row, asym, float16";
  const auto before = runs_of({{"a", 10}, {"b", 20}});
  const auto worse = compare_records(before, runs_of({{"a", 20}, {"b", 12}}));
  EXPECT_EQ(change_of(worse, name).change, Change::kSlower);
  EXPECT_THAT(change_of(worse, name).detail, HasSubstr("a before, now b"));
  EXPECT_EQ(change_of(compare_records(before, runs_of({{"c", 10.2}})), name).change, Change::kSame);
  EXPECT_EQ(change_of(compare_records(before, runs_of({{"a", 5}})), name).change, Change::kFaster);
  EXPECT_TRUE(compare_records(before, runs_of({})).tripped());
  EXPECT_EQ(change_of(compare_records({before[0]}, {runs_of({{"a", 20}})[0]}), name).change,
            Change::kUnclear);
  auto elsewhere = runs_of({{"a", 50}}, 100);
  elsewhere[0].environment.gpu = "another";
  EXPECT_FALSE(compare_records(before, elsewhere).tripped());
  EXPECT_EQ(change_of(compare_records(before, runs_of({{"a", 10}, {"b", 20}}, 3000)),
                      "kernels.read.gb_per_s")
                .change,
            Change::kSlower);
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
  EXPECT_THAT(comparison_text(compare_records({cell}, {cell})),
              HasSubstr("\nThe gate holds: 1 cell in both (1 run before, 1 now), 1 SAME\n"));
  EXPECT_THAT(comparison_text(compare_records({cell}, {cell}), true), HasSubstr("| SAME   |"));
  const std::string text = comparison_text(compare_records({cell}, {}));
  EXPECT_THAT(text, HasSubstr("\nThe gate TRIPPED: 0 cells in both, 1 MISSING\n"));
  EXPECT_THAT(text,
              HasSubstr("| g    | gptq 4 bits, whole rows | status | ok     |     | MISSING |"));
}

TEST(CompareTest, JunitHasAFailureForEachRegression) {
  Record before = scored({1, 2, 3});
  before.settings[1].second = "a<b>&\"c\"";
  before.metrics.push_back(metric("seconds.quantize", 1));
  Record after = before;
  after.metrics[0] = scored({1.5, 2.5, 3.5}).metrics[0];
  after.metrics[1].value = 2;
  after.environment.threads = 4;
  const std::string group = "tiny.g a&lt;b&gt;&amp;&quot;c&quot; 4 bits, whole rows";
  const std::string programs = "0.1.0 (commit 0123456789ab, GNU-12, torch 2.11.0, without CUDA)";
  EXPECT_EQ(
      junit_xml(compare_records({before}, {after})),
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"gptq-bench\" tests=\"2\" failures=\"1\" errors=\"0\">\n"
      "  <testsuite name=\"gptq-bench compare\" tests=\"2\" failures=\"1\" errors=\"0\" "
      "skipped=\"1\" time=\"0\">\n"
      "    <properties>\n"
      "      <property name=\"before\" value=\"Test CPU (2 threads), gptq-bench " +
          programs +
          "\"/>\n"
          "      <property name=\"now\" value=\"Test CPU (4 threads), gptq-bench " +
          programs +
          "\"/>\n"
          "      <property name=\"changed: threads\" value=\"2 -&gt; 4\"/>\n"
          "    </properties>\n"
          "    <testcase classname=\"" +
          group +
          "\" name=\"perplexity.wikitext2\" time=\"0\">\n"
          "      <failure type=\"WORSE\" message=\"WORSE: before 7.38905609893065, now "
          "12.182493960703473; +64.9 %, allowed 0.015; loss +0.500 ± 0 nats/token over 3 "
          "windows\">" +
          group +
          ", perplexity.wikitext2</failure>\n"
          "    </testcase>\n"
          "    <testcase classname=\"" +
          group +
          "\" name=\"seconds.quantize\" time=\"0\">\n"
          "      <skipped message=\"NOT COMPARABLE: before 1.000, now 2.000; another device\"/>\n"
          "    </testcase>\n"
          "  </testsuite>\n"
          "</testsuites>\n");
}

}  // namespace
}  // namespace gptqb
