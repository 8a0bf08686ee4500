// The gate as CI calls it, on records of real runs of the embedded model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "common/atomic_file.h"
#include "models/checkpoint.h"
#include "models/safetensors.h"
#include "runner/cli.h"
#include "runner/record.h"
#include "runner/report/compare.h"
#include "tests/runner/run_program.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::run_program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CompareCommand : public testing::Test {
 protected:
  // The same cells whatever model the variable names: its text stays unexpanded in their ids.
  void SetUp() override {
    write_file_atomically(folder_ / "experiment.yaml",
                          "name: gated\n"
                          "model: {path: \"${GPTQB_GATED_MODEL}\", dtype: float32}\n"
                          "method: {name: none}\n"
                          "evaluate:\n"
                          "  - perplexity: {datasets: [builtin], seqlen: 128, max_windows: 16}\n");
    use(GPTQB_SOURCE_DIR "/assets/quickstart-model");
  }
  void TearDown() override { ::unsetenv("GPTQB_GATED_MODEL"); }
  static void use(const fs::path& model) { ::setenv("GPTQB_GATED_MODEL", model.c_str(), 1); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void run(const std::string& output) const {
    const Outcome outcome = run_program({"run", path("experiment.yaml"), "--output", path(output)});
    ASSERT_EQ(outcome.code, kExitOk) << outcome.out << outcome.err;
  }
  static Outcome compare(std::vector<std::string> args) {
    args.insert(args.begin(), "compare");
    return run_program(args);
  }
  // A copy of the model whose last norm is 1 % larger: all logits are, which costs it 1 % of its
  // perplexity.
  fs::path damaged_model() const {
    const fs::path source = GPTQB_SOURCE_DIR "/assets/quickstart-model";
    const fs::path copy = folder_ / "damaged";
    fs::copy(source, copy);
    const TensorReader reader(source);
    std::map<std::string, at::Tensor> tensors;
    for (const std::string& name : reader.names()) tensors[name] = reader.view(name).clone();
    tensors.at("model.norm.weight").mul_(1.01);
    write_safetensors(copy / "model.safetensors", tensors, {{"format", "pt"}});
    return copy;
  }
  Record only_record(const std::string& output) const {
    return load_records(folder_ / output).records.at(0);
  }

  const test::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(CompareCommand, FindsAModelThatIsOnePercentWorse) {
  run("old");
  use(damaged_model());
  run("new");
  const double ratio = find_metric(only_record("new"), "perplexity.builtin")->value /
                       find_metric(only_record("old"), "perplexity.builtin")->value;
  EXPECT_NEAR(ratio, 1.01, 0.001);
  const Outcome outcome = compare({path("old"), path("new")});
  EXPECT_EQ(outcome.code, kExitFailed);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("| model files of ${GPTQB_GATED_MODEL} |"),
                                 HasSubstr("The gate TRIPPED"), HasSubstr("| perplexity.builtin"),
                                 HasSubstr("| WORSE")));
  EXPECT_EQ(compare({path("new"), path("old")}).code, kExitOk);
  EXPECT_EQ(compare({path("old"), path("new"), "--relative", "0.02"}).code, kExitOk);
  EXPECT_EQ(compare({path("old"), path("new"), "--absolute", "1"}).code, kExitOk);
}

TEST_F(CompareCommand, StaysQuietOverTwentyRepeatsOfTheSameCode) {
  std::vector<std::string> first, second;
  for (int i = 0; i < 20; ++i) {
    const std::string name = "run" + std::to_string(i);
    run(name);
    (i % 2 == 0 ? first : second).push_back(path(name));
  }
  for (int i = 0; i + 1 < 20; ++i) {
    const Outcome outcome =
        compare({path("run" + std::to_string(i)), path("run" + std::to_string(i + 1))});
    EXPECT_EQ(outcome.code, kExitOk) << outcome.out;
  }
  std::vector<std::string> args = first;
  args.push_back("--new");
  args.insert(args.end(), second.begin(), second.end());
  const Outcome outcome = compare(args);
  EXPECT_EQ(outcome.code, kExitOk) << outcome.out;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("Same environment: "), HasSubstr("10 runs before, 10 now"),
                    Not(HasSubstr("SLOWER")), Not(HasSubstr("FASTER"))));
}

// Folders of folders: what `run` leaves of several experiments, and runs that were repeated.
TEST_F(CompareCommand, FindsOutputFoldersBelowTheOnesItIsGiven) {
  run("old/1/gated");
  run("old/2/gated");
  run("new/a");
  EXPECT_THAT(compare({path("old"), path("new")}).out, HasSubstr("2 runs before, 1 now"));
  const std::string xml = path("gate.xml");
  EXPECT_EQ(compare({path("old"), path("new"), "--junit", xml}).code, kExitOk);
  if (std::system("python3 -c '' > /dev/null 2>&1") != 0) GTEST_SKIP() << "python3 is not there";
  // A parser that is not ours, and the counts that CI systems show.
  const std::string check =
      "import sys, xml.etree.ElementTree as E\n"
      "root = E.parse(sys.argv[1]).getroot()\n"
      "assert root.tag == 'testsuites', root.tag\n"
      "suite, = root\n"
      "cases = suite.findall('testcase')\n"
      "assert len(cases) == int(suite.get('tests')) == int(root.get('tests')) > 5\n"
      "assert len(suite.findall('testcase/failure')) == int(suite.get('failures')) == 0\n"
      "assert len(suite.findall('testcase/skipped')) == int(suite.get('skipped'))\n"
      "assert all(c.get('name') and c.get('classname').startswith('gated.') for c in cases)\n"
      "assert suite[0].tag == 'properties'\n";
  write_file_atomically(folder_ / "check.py", check);
  EXPECT_EQ(std::system(("python3 " + path("check.py") + " " + xml).c_str()), 0) << read_file(xml);
}

// Twenty runs of one cell and one kernel problem while others worked on the machine: times differ
// by up to a factor of two (results/published/2026-11-30/cpu/gate).
TEST_F(CompareCommand, StaysQuietOverRecordedRunsOnALoadedMachineAndFindsWhatIsPlanted) {
  const fs::path folder = GPTQB_SOURCE_DIR "/results/published/2026-11-30/cpu/gate/runs";
  std::vector<std::vector<Record>> runs;
  for (int run = 101; run <= 120; ++run)
    runs.push_back(load_records(folder / std::to_string(run).substr(1)).records);
  for (const auto& records : runs) ASSERT_EQ(records.size(), 2u);
  const auto together = [&](size_t first, size_t step, size_t count) {
    std::vector<Record> result;
    for (size_t i = 0; i < count; ++i)
      for (const Record& record : runs[first + i * step]) result.push_back(record);
    return result;
  };
  for (size_t i = 0; i + 1 < runs.size(); ++i)
    EXPECT_FALSE(compare_records(runs[i], runs[i + 1]).tripped()) << i;
  for (size_t a = 0; a < 20; a += 5)
    for (size_t b = 0; b < 20; b += 5)
      EXPECT_FALSE(compare_records(together(a, 1, 5), together(b, 1, 5)).tripped())
          << a << " " << b;
  const std::vector<Record> odd = together(0, 2, 10), even = together(1, 2, 10);
  EXPECT_FALSE(compare_records(odd, even).tripped());
  EXPECT_FALSE(compare_records(even, odd).tripped());

  std::vector<Record> worse = even, slower = even;
  for (Record& record : worse)
    for (Metric& metric : record.metrics)
      if (metric.name == "perplexity.builtin") {
        metric.value *= 1.01;
        for (double& loss : metric.samples) loss += std::log(1.01);
      }
  for (Record& record : slower) {
    for (auto& [phase, seconds] : record.seconds) seconds *= 1.6;
    for (Metric& metric : record.metrics)
      if (metric.name.starts_with("seconds.")) metric.value *= 1.6;
  }
  const auto verdict = [](const Comparison& comparison, const std::string& metric) {
    for (const MetricChange& change : comparison.changes)
      if (change.metric == metric) return change.change;
    return Change::kMissing;
  };
  EXPECT_EQ(verdict(compare_records(odd, worse), "perplexity.builtin"), Change::kWorse);
  EXPECT_EQ(verdict(compare_records(odd, slower), "seconds.quantize"), Change::kSlower);
  EXPECT_EQ(verdict(compare_records(odd, slower), "perplexity.builtin"), Change::kSame);
}

TEST_F(CompareCommand, BadInputIsNoVerdict) {
  run("old");
  EXPECT_EQ(compare({path("old"), path("none")}).code, kExitBadInput);
  EXPECT_EQ(compare({path("old")}).code, kExitBadInput);
  EXPECT_EQ(compare({path("old"), path("old"), path("old")}).code, kExitBadInput);
  EXPECT_EQ(compare({path("old"), path("old"), "--relative", "-1"}).code, kExitBadInput);
  run("new");
  const Record record = only_record("new");
  write_file_atomically(record_path(folder_ / "new", record.cell_id), "{");
  const Outcome outcome = compare({path("old"), path("new")});
  EXPECT_EQ(outcome.code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("expected records that can be read, got 1 that cannot"));
}

}  // namespace
}  // namespace gptqb
