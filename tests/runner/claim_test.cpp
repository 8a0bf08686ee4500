// Claims: which cells are compared, and when a claim holds, fails or depends.
#include "runner/claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "runner/report/report.h"
#include "tests/runner/planned.h"
#include "tests/runner/record_samples.h"

namespace gptqb::test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

ClaimPart part(const std::string& of, const std::string& against) {
  ClaimPart result;
  result.metric = "perplexity.wikitext2";
  result.of = {{"method.name", of}};
  result.against = {{"method.name", against}};
  return result;
}

// A cell whose perplexity is that of its window losses.
Record cell(const std::string& id, const std::string& method, int bits,
            const std::vector<double>& losses) {
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return record(id, method, bits, std::exp(sum / static_cast<double>(losses.size())), losses);
}

ClaimVerdict judged(const ClaimPart& part, const std::vector<Record>& records) {
  static Claim claim;
  claim = {"The claim", {part}};
  std::vector<const Record*> rows;
  for (const Record& record : records) rows.push_back(&record);
  return judge_claim(claim, rows);
}

// 4 windows whose losses differ by 0.10, 0.11, 0.09, 0.10: t for 3 degrees of freedom is 3.1824,
// the standard error 0.0040825, so the interval is 0.1 +- 0.012992.
const std::vector<double> kDense = {2.0, 3.0, 2.5, 1.5};
const std::vector<double> kWorse = {2.10, 3.11, 2.59, 1.60};

TEST(Claim, TheWholePairedIntervalMustLieWithinTheBounds) {
  const std::vector<Record> records = {cell("a", "none", 0, kDense), cell("b", "gptq", 4, kWorse)};
  ClaimPart ratio = part("gptq", "none");
  ratio.ratio_at_least = 1.05;
  ratio.ratio_at_most = 1.15;
  ClaimVerdict verdict = judged(ratio, records);
  EXPECT_EQ(verdict.word, "holds");
  ASSERT_EQ(verdict.parts[0].comparisons.size(), 1u);
  const ClaimComparison& made = verdict.parts[0].comparisons[0];
  EXPECT_NEAR(made.estimate, std::exp(0.1), 1e-12);
  EXPECT_NEAR(*made.low, std::exp(0.1 - 0.012992), 1e-6);
  EXPECT_NEAR(*made.high, std::exp(0.1 + 0.012992), 1e-6);
  EXPECT_EQ(estimate_text(made), "1.105 (1.091 to 1.120)");
  EXPECT_EQ(bound_text(ratio), "ratio from 1.05 to 1.15");
  EXPECT_EQ(verdict.sentence,
            "The claim, on m: holds. 1 of 1 comparison holds: perplexity.wikitext2 of method.name "
            "gptq against method.name none: ratio 1.105, asked for ratio from 1.05 to 1.15.");
  ratio.ratio_at_most = 1.10;  // inside the interval
  EXPECT_EQ(judged(ratio, records).word, "depends");
  EXPECT_THAT(judged(ratio, records).sentence, HasSubstr("1 is too close to tell"));
  ratio.ratio_at_most = 1.06;
  EXPECT_EQ(judged(ratio, records).word, "fails");
  ClaimPart difference = part("gptq", "none");
  difference.difference_at_most = 0.5;  // dense perplexity e^2.25 = 9.49, times 0.105
  EXPECT_EQ(judged(difference, records).word, "fails");
  EXPECT_NEAR(judged(difference, records).parts[0].comparisons[0].estimate,
              std::exp(2.35) - std::exp(2.25), 1e-12);
  difference.difference_at_most = 1.2;
  EXPECT_EQ(judged(difference, records).word, "holds");
}

// One dense cell stands against every quantized one; quantized ones only against their likes.
TEST(Claim, CellsAreComparedWithThoseThatDifferInNothingElse) {
  const std::vector<Record> records = {cell("a", "none", 0, kDense), cell("b", "rtn", 4, kDense),
                                       cell("c", "rtn", 3, kWorse), cell("d", "gptq", 4, kWorse),
                                       cell("e", "gptq", 3, kDense)};
  ClaimPart better = part("gptq", "rtn");
  better.ratio_at_most = 1;
  const ClaimVerdict verdict = judged(better, records);
  ASSERT_EQ(verdict.parts[0].comparisons.size(), 2u);
  EXPECT_EQ(verdict.parts[0].comparisons[0].against->cell_id, "b");
  EXPECT_EQ(verdict.parts[0].comparisons[1].against->cell_id, "c");
  EXPECT_EQ(verdict.word, "depends") << "it holds at 3 bits and fails at 4";
  EXPECT_THAT(verdict.sentence, HasSubstr("1 of 2 comparisons hold, 1 fails: "));
  ClaimPart cost = part("gptq", "none");
  cost.ratio_at_most = 2;
  EXPECT_EQ(judged(cost, records).parts[0].comparisons.size(), 2u);
}

TEST(Claim, CellsThatDidNotRunAreNoEvidence) {
  std::vector<Record> records = {cell("a", "none", 0, kDense), cell("b", "gptq", 4, kWorse)};
  records[1].status = CellStatus::kSkipped;
  records[1].reason = "not run: model: expected the folder";
  ClaimPart cost = part("gptq", "none");
  cost.ratio_at_most = 2;
  const ClaimVerdict verdict = judged(cost, records);
  EXPECT_EQ(verdict.word, "not run");
  EXPECT_EQ(verdict.sentence, "The claim, on m: not run. model: expected the folder");
  EXPECT_EQ(judged(part("awq", "none"), records).word, "not run");
}

// Bytes and seconds have no windows: the numbers themselves are compared.
TEST(Claim, MetricsWithoutWindowsAreComparedAsTheyAre) {
  std::vector<Record> records = {cell("a", "none", 0, kDense), cell("b", "gptq", 4, kWorse)};
  records[0].metrics.push_back(metric("bits_per_weight.model", 16));
  records[1].metrics.push_back(metric("bits_per_weight.model", 4.8));
  ClaimPart size = part("gptq", "none");
  size.metric = "bits_per_weight.model";
  size.ratio_at_most = 0.3;
  EXPECT_EQ(judged(size, records).word, "holds");
  EXPECT_EQ(estimate_text(judged(size, records).parts[0].comparisons[0]), "0.3000");
  size.ratio_at_most = 0.29;
  EXPECT_EQ(judged(size, records).word, "fails");
}

// What cannot be told apart is no evidence: most must speak, and none against.
TEST(Claim, HoldsIfMostComparisonsHoldAndNoneFails) {
  const std::vector<double> near = {2.02, 2.98, 2.51, 1.49};  // within noise of dense
  ClaimPart cost = part("gptq", "none");
  cost.ratio_at_least = 1.001;
  std::vector<Record> records = {cell("a", "none", 0, kDense), cell("b", "gptq", 4, kWorse),
                                 cell("c", "gptq", 3, kWorse), cell("d", "gptq", 2, near)};
  EXPECT_EQ(judged(cost, records).word, "holds");
  EXPECT_THAT(judged(cost, records).sentence,
              HasSubstr("2 of 3 comparisons hold, 1 is too close to tell: "));
  records.pop_back();
  records.back() = cell("c", "gptq", 3, near);
  EXPECT_EQ(judged(cost, records).word, "depends") << "one of two is not most";
}

TEST(Claim, StandsInEveryReportAsASentence) {
  std::vector<Record> records = {cell("a", "none", 0, kDense), cell("b", "gptq", 4, kWorse)};
  ClaimPart cost = part("gptq", "none");
  cost.ratio_at_most = 1;
  for (Record& record : records) record.claim = Claim{"4 bits cost nothing", {cost}};
  const ReportData data = {records, {}, {}};
  const std::string text = report_formats().at("md").make.render(data);
  EXPECT_THAT(text, HasSubstr("## Claim\n\n4 bits cost nothing, on m: fails. 0 of 1"));
  EXPECT_THAT(text, HasSubstr("| perplexity.wikitext2 | gptq 4 bits"));
  EXPECT_THAT(report_formats().at("html").make.render(data), HasSubstr("4 bits cost nothing"));
}

// The claims, one file each.
TEST(Claim, EveryFileOfClaimsMakesOne) {
  size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(GPTQB_SOURCE_DIR "/experiments/claims")) {
    const auto documents = load_experiments(entry.path());
    EXPECT_EQ(documents.at(0).tier, "base") << entry.path();
    for (const Experiment& experiment : documents) {
      if (&experiment != &documents[0] && experiment.claim.empty()) continue;
      EXPECT_NE(experiment.statement, "") << entry.path();
      const Plan made = make_plan(experiment, build());
      EXPECT_EQ(made.claim.parts.size(), experiment.claim.size()) << entry.path();
    }
    ++files;
  }
  EXPECT_GE(files, 14u);
}

constexpr const char* kClaimed =
    "evaluate: [{perplexity: {datasets: [c4]}}]\n"
    "sweep: {method.name: [none, gptq], quant.bits: [3, 4]}\nclaim:\n  statement: 3 bits cost\n"
    "  parts:\n";

TEST(Claim, IsReadAndPlanned) {
  const Plan made = plan(std::string(kClaimed) +
                         "    - {metric: perplexity.c4, of: {quant.bits: 3}, against: {quant.bits: "
                         "4}, ratio: {at_least: 1.05, at_most: 1.15}}\n");
  EXPECT_EQ(made.claim.statement, "3 bits cost");
  ASSERT_EQ(made.claim.parts.size(), 1u);
  EXPECT_EQ(made.claim.parts[0].of.at(0).second, "3");
  EXPECT_EQ(made.claim.parts[0].ratio_at_least, 1.05);
  Record sample = record("abc", "gptq", 4, 5.88, {1.7});
  sample.claim = made.claim;
  EXPECT_EQ(record_from_json(to_json(sample), "x.json").claim, made.claim);
  EXPECT_FALSE(record_from_json(to_json(record("a", "gptq", 4, 5, {1.7})), "x.json").claim);
}

TEST(Claim, ThatCouldNotBeJudgedIsAnError) {
  const auto fault = [](const std::string& part) {
    return fault_of(std::string(kClaimed) + "    - {" + part + "}\n");
  };
  EXPECT_THAT(fault("metric: perplexity.c4, of: {quant.bits: 8}, against: {quant.bits: 4}, ratio: "
                    "{at_most: 1}"),
              HasSubstr("expected cells to compare, got none with quant.bits: 8 beside cells with "
                        "quant.bits: 4"));
  EXPECT_THAT(fault("metric: perplexity.ptb, of: {quant.bits: 3}, against: {quant.bits: 4}, ratio: "
                    "{at_most: 1}"),
              HasSubstr("expected one of perplexity.c4"));
  EXPECT_THAT(fault("metric: perplexity.c4, of: {quant.bits: 3}, against: {quant.bits: 4}"),
              HasSubstr("expected one of ratio and difference"));
  EXPECT_THAT(fault("metric: perplexity.c4, of: {quant.bits: 3}, ratio: {at_most: 1}"),
              HasSubstr("expected `against` in each part"));
  EXPECT_THAT(fault("metric: perplexity.c4, of: {quant.bits: 3}, against: {quant.bits: 4}, ratio: "
                    "{at_mst: 1}"),
              HasSubstr("Did you mean 'at_most'?"));
  EXPECT_THAT(fault_of("method: {name: none}\nclaim: {parts: []}\n"),
              HasSubstr("expected {statement: TEXT, parts:"));
}

}  // namespace
}  // namespace gptqb::test
