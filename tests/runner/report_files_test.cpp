// The files of a report judged by programs of others: a JSON schema validator, a strict HTML
// parser, an XML parser, and LaTeX where there is one (tests/runner/report_files.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <limits>

#include "common/atomic_file.h"
#include "runner/report/report.h"
#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

using test::layer;
using test::metric;
using test::record;

// Output and exit code of a line of bash, run in the source tree after scripts/env.sh.
std::pair<std::string, int> shell(const std::string& line) {
  const std::string command = "cd '" GPTQB_SOURCE_DIR "' && source scripts/env.sh && " + line;
  std::FILE* pipe = popen(("bash -c \"" + command + "\" 2>&1").c_str(), "r");
  std::string text;
  std::array<char, 4096> buffer;
  while (pipe && std::fgets(buffer.data(), buffer.size(), pipe)) text += buffer.data();
  return {text, pipe ? pclose(pipe) : -1};
}

const std::string kAttack = "</script><script>alert(1)</script> & 100 % \\\\x_y";

class ReportFiles : public testing::Test {
 protected:
  void SetUp() override {
    if (shell("test -e \\$GPTQ_BENCH_REPORT_VENV/complete").second != 0)
      GTEST_SKIP() << "matplotlib and validators are not installed: ./scripts/setup";
    for (const Record& one : records()) write_record(folder_.path(), one);
    write();
  }

  void write() {
    write_reports(folder_.path(), report_data(load_records(folder_.path()), folder_.path()));
  }

  // Faults that tests/runner/report_files.py finds; empty if none.
  std::string faults(const std::string& kind, const std::string& arguments = "") const {
    const auto [text, code] =
        shell("\\$GPTQ_BENCH_REPORT_VENV/bin/python tests/runner/report_files.py " + kind + " " +
              (kind == "json" ? "docs/results.schema.json " : "") + "'" + folder_.path().string() +
              "' " + arguments);
    return code == 0 && !text.empty() ? "it printed " + text : text;
  }

  // Every kind of cell and section: dense, two methods on two models, layers, verdicts, kernels,
  // values that are not finite, a failed cell and a skipped one, and text that wants to be markup.
  static std::vector<Record> records() {
    std::vector<Record> result;
    for (const char* model : {"tiny-125m", "tiny-1.3b"})
      for (const char* method : {"none", "rtn", "gptq"}) {
        const bool dense = std::string(method) == "none";
        Record one = record(std::string(method) + "-" + model, method, dense ? 0 : 4,
                            10 + static_cast<double>(result.size()), {1, 2, 3, 4});
        one.position = static_cast<int64_t>(result.size());
        one.settings[0].second = std::string("/models/") + model;
        one.metrics[0].standard_error = 0.25;
        one.environment.time = "2026-11-30T12:00:00Z";
        if (!dense) {
          one.metrics.push_back(metric("bits_per_weight.linear", 4.05));
          one.metrics.push_back(metric("seconds.quantize", 3));
          one.seconds = {{"forward", 1}, {"hessian", 1.5}, {"solve", 0.5}};
          for (const char* block : {"0", "1", "2"})
            for (const char* kind : {"q_proj", "down_proj"}) {
              one.layers.push_back(layer(std::string("model.layers.") + block + "." + kind));
              one.layers.back().method = method;
              one.layers.back().relative_error_rtn = 0.5;
            }
          Expectation expectation;
          expectation.metric = "perplexity.wikitext2";
          expectation.value = 11;
          expectation.tolerance_relative = 0.02;
          expectation.source = kAttack;
          one.expectations = {expectation};
        }
        ClaimPart part;
        part.metric = "perplexity.wikitext2";
        part.of = {{"method.name", "gptq"}};
        part.against = {{"method.name", "none"}};
        part.ratio_at_most = 1.15;
        one.claim = Claim{kAttack, {part}};
        result.push_back(one);
      }
    result[1].metrics.push_back(
        metric("divergence.wikitext2.max_kl", std::numeric_limits<double>::infinity()));
    result[1].metrics.back().reason = "overflow";
    result[2].environment.cpu = "Another CPU";
    Record failed = record("failed", "awq", 3, 5, {});
    failed.metrics.clear();
    failed.status = CellStatus::kFailed;
    failed.reason = kAttack;
    failed.settings[0].second = "/models/模型 " + kAttack;
    Record skipped = failed;
    skipped.cell_id = "skipped";
    skipped.status = CellStatus::kSkipped;
    skipped.settings[1].second = "obq";
    Record measured = record("kernels", "", 0, 0, {});
    measured.settings = {{"kernels.m", "[1]"}};
    measured.metrics = {metric("kernels.read.gb_per_s", 50),
                        metric("kernels.float32.tflop_per_s", 0.5)};
    for (const char* name : {"dense", "cpu_w4"}) {
      KernelRow row;
      row.kernel = name;
      row.k = row.n = 64;
      row.m = 1;
      row.bits = row.dense() ? 32 : 4;
      row.dtype = "float32";
      row.us = row.us_p10 = row.us_p90 = 2;
      row.cache = "cold";
      row.tflop_per_s = 0.004;
      row.read_gb_per_s = 50;
      row.dense_tflop_per_s = 0.5;
      row.weight_bytes = 2048;
      row.speedup_vs_f16 = 1;
      measured.kernels.push_back(row);
    }
    result.insert(result.end(), {failed, skipped, measured});
    return result;
  }

  test::TemporaryFolder folder_;
};

// The schema is published: docs/results.schema.json.
TEST_F(ReportFiles, ResultsAreWhatTheSchemaSays) { EXPECT_EQ(faults("json"), ""); }

TEST_F(ReportFiles, ThePageIsWellFormedAndClosed) {
  EXPECT_EQ(faults("html", "'</script><script>alert(1)</script> & 100 % '"), "");
}

TEST_F(ReportFiles, TheTexCompiles) { EXPECT_EQ(faults("tex"), ""); }

TEST_F(ReportFiles, PlotsAreTheSameBytesEachTimeAndStandOnThePage) {
  const std::string draw = "scripts/plots '" + folder_.path().string() + "'";
  ASSERT_EQ(shell(draw).second, 0) << shell(draw).first;
  const auto plots = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() / "plots"))
      files[entry.path().filename().string()] = read_file(entry.path());
    return files;
  };
  const auto first = plots();
  std::vector<std::string> names;
  for (const auto& [name, text] : first) names.push_back(name);
  EXPECT_THAT(names, testing::ElementsAre("layer_errors.svg", "perplexity_bits.svg",
                                          "perplexity_size.svg", "phases.svg", "roofline.svg"));
  ASSERT_EQ(shell(draw).second, 0);
  EXPECT_EQ(plots(), first);
  EXPECT_EQ(faults("svg"), "");
  write();
  const std::string page = read_file(folder_.path() / "report.html");
  for (const char* plot :
       {"layer_errors", "perplexity_bits", "perplexity_size", "phases", "roofline-kernels"})
    EXPECT_THAT(page, testing::HasSubstr("<figure id=\"plot-" + std::string(plot) + "\">"));
  EXPECT_EQ(faults("html"), "");
}

}  // namespace
}  // namespace gptqb
