// `gptq-bench bench` and the section `kernels`: what a user types, and what is left on disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "common/atomic_file.h"
#include "runner/cli.h"
#include "runner/cli_commands.h"
#include "runner/kernel_settings.h"
#include "runner/record.h"
#include "runner/report/kernels_csv.h"
#include "runner/report/markdown_table.h"
#include "runner/report/roofline.h"
#include "runner/report/sections.h"
#include "tests/runner/record_samples.h"
#include "tests/runner/run_program.h"
#include "tests/support/message.h"
#include "tests/support/temporary_folder.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using test::run_program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// Of docs/architecture.md, which other programs read.
constexpr const char* kFixedColumns =
    "kernel,k,n,m,bits,group_size,symmetric,act_order,dtype,us,us_p10,us_p90,gb_per_s,tflop_per_s,"
    "bandwidth_share,dense_rate_share,speedup_vs_f16,max_relative_error,mean_relative_error,";

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(BenchCommand, MeasuresAndLeavesTablesAndAPlot) {
  const test::TemporaryFolder folder;
  const std::string output = (folder.path() / "out").string();
  const auto outcome = run_program({"bench", "--shapes", "96x40,64x64", "--m", "1,3", "--bits",
                                    "3,4", "--group-size", "32", "--filter", "96x40", "--warm",
                                    "--repetitions", "3", "--output", output});
  ASSERT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("## Kernels"), HasSubstr("plain read of 1 GiB"),
                                 HasSubstr("| 96 x 40 |"), HasSubstr("3 bits, g32"),
                                 HasSubstr("## Where the dense product wins"),
                                 Not(HasSubstr("perplexity")), Not(HasSubstr("64 x 64"))));
  const std::string csv = read_file(fs::path(output) / "kernels.csv");
  EXPECT_THAT(csv, StartsWith(kFixedColumns));
  EXPECT_EQ(count(csv, "\r\n"), 1u + 2u + 4u);  // header, dense, kernels
  EXPECT_EQ(read_file(fs::path(output) / "table.md") + "\nFiles: ",
            outcome.out.substr(0, outcome.out.find("\nFiles: ") + 8));
  EXPECT_THAT(read_file(fs::path(output) / "plots/roofline.svg"), StartsWith("<svg "));
  const auto records = load_records(output).records;
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].status, CellStatus::kOk);
  EXPECT_EQ(records[0].kernels.size(), 6u);
  EXPECT_EQ(records[0].setting("kernels.filter"), "96x40");
  EXPECT_GT(find_metric(records[0], "kernels.read.gb_per_s")->value, 0);
  for (const KernelRow& row : records[0].kernels) EXPECT_NE(row.reason, "");
}

// Exit code 1, the kernel, the problem and the error; the times of the others stay.
TEST(BenchCommand, AWrongKernelFailsTheRun) {
  class Wrong final : public kernels::MatmulKernel {
   public:
    std::string_view layout() const override { return "tiles"; }
    std::string refusal(const kernels::MatmulProblem&,
                        const kernels::MatmulDevice&) const override {
      return "";
    }
    int64_t workspace_bytes(const kernels::PackedShape&, int64_t,
                            const kernels::MatmulDevice&) const override {
      return 0;
    }
    void launch(const kernels::MatmulArguments& arguments, void*) const override {
      std::fill_n(static_cast<uint16_t*>(arguments.y), arguments.m * arguments.weight.shape.rows,
                  uint16_t{0x3C00});
    }
  };
  const KernelSource source{{"wrong"},
                            [](const auto&, const auto&, const std::string&) {
                              return kernels::MatmulChoice{"wrong", "the only one"};
                            },
                            [](const std::string&) { return std::make_unique<Wrong>(); }};
  const test::TemporaryFolder folder;
  BenchCommandOptions options;
  options.run.output = (folder.path() / "out").string();
  options.run.kernels = &source;
  options.shapes = {"64x32"};
  options.lists = {{"m", {"1"}}, {"group_size", {"32"}}};
  options.repetitions = 3;
  std::ostringstream out, err;
  EXPECT_EQ(bench_command(options, out, err), kExitFailed);
  EXPECT_THAT(out.str(), AllOf(HasSubstr("## Cells without a result"),
                               HasSubstr("wrong/64x32/m:1/bits:4/group:32/sym/natural/float16"),
                               HasSubstr("times the bound")));
  const auto records = load_records(options.run.output).records;
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].status, CellStatus::kFailed);
  ASSERT_EQ(records[0].kernels.size(), 1u);
  EXPECT_TRUE(records[0].kernels[0].dense());
}

// PF-06, KN-12, and the rest of what can be told before anything is measured.
TEST(BenchCommand, WhatCannotRunIsBadInput) {
  const auto fault = [](std::vector<std::string> args) {
    args.insert(args.begin(), "bench");
    const auto outcome = run_program(args);
    EXPECT_EQ(outcome.code, kExitBadInput) << outcome.out;
    return outcome.err;
  };
  EXPECT_THAT(fault({"--kernel", "cuda_plain"}), HasSubstr("expected a CUDA device, got the CPU"));
  EXPECT_THAT(fault({"--kernel", "cpu_plian"}), HasSubstr("Did you mean 'cpu_plain'?"));
  EXPECT_THAT(fault({"--like", "llama-7"}), HasSubstr("Did you mean 'llama-7b'?"));
  EXPECT_THAT(fault({"--like", "llama-7b", "--shapes", "64x64"}), HasSubstr("--like"));
  EXPECT_THAT(fault({"--shapes", "64"}), HasSubstr("expected KxN such as 4096x11008, got '64'"));
  EXPECT_THAT(fault({"--m", "0"}), HasSubstr("kernels.m] expected an integer >= 1, got '0'"));
  EXPECT_THAT(fault({"--bits", "4,5"}), HasSubstr("expected one of 2, 3, 4, 8; got '5'"));
  EXPECT_THAT(fault({"--group-size", "24"}), HasSubstr("multiple of 16"));
  EXPECT_THAT(fault({"--filter", "m:7"}), HasSubstr("[filter] expected a regular expression"));
  EXPECT_THAT(fault({"--device", "tpu"}), HasSubstr("expected cpu, cuda or cuda:N, got 'tpu'"));
  EXPECT_THAT(fault({"--repetitions", "1"}), HasSubstr("an integer >= 3"));
}

TEST(BenchCommand, KernelsAreListedWithWhyTheyCannotRunHere) {
  const auto outcome = run_program({"list", "kernels"});
  EXPECT_EQ(outcome.code, kExitOk);
  for (const auto& entry : kernels::matmul_kernels().entries()) {
    const size_t line = outcome.out.find(entry.name + " ");
    ASSERT_NE(line, std::string::npos) << entry.name;
    const std::string text = outcome.out.substr(line, outcome.out.find('\n', line) - line);
    EXPECT_THAT(text, HasSubstr(entry.summary));
    if (!entry.unavailable.empty()) {
      EXPECT_THAT(text, HasSubstr("(not here: " + entry.unavailable));
    }
  }
  EXPECT_THAT(run_program({"list", "kernel"}).err, HasSubstr("Did you mean 'kernels'?"));
}

// config.json of LLaMA-7B: hidden size 4096, inner size 11008.
TEST(KernelSettings, ShapesOfAModelAreThoseOfItsLinears) {
  const auto shapes = [](const std::string& like) {
    const auto plan = make_plan(
        parse_experiments("name: k\nkernels: {like: " + like + "}\n", "k").at(0), {{}, {}});
    std::vector<std::string> texts;
    for (const KernelShape& shape : kernel_bench_of(plan.cells.at(0).cell).shapes)
      texts.push_back(shape.text());
    return texts;
  };
  EXPECT_THAT(shapes("llama-7b"), testing::ElementsAre("4096x4096", "4096x11008", "11008x4096"));
  EXPECT_THAT(shapes("opt-175b"),
              testing::ElementsAre("12288x12288", "12288x49152", "49152x12288"));
  // Grouped queries: 8 of 64 heads of 128.
  EXPECT_THAT(shapes("llama-2-70b"),
              testing::ElementsAre("8192x8192", "8192x1024", "8192x28672", "28672x8192"));
}

KernelRow row(const std::string& kernel, int64_t m, double us, double dense_us) {
  KernelRow result;
  result.kernel = kernel;
  result.k = 4096;
  result.n = 4096;
  result.m = m;
  result.bits = kernel == "dense" ? 16 : 4;
  result.group_size = kernel == "dense" ? -1 : 128;
  result.symmetric = true;
  result.dtype = "float16";
  result.us = result.us_p10 = result.us_p90 = us;
  result.weight_bytes = 4096 * 4096 * result.bits / 8;
  result.gb_per_s = 1e-3 * static_cast<double>(result.weight_bytes) / us;
  result.tflop_per_s = 2e-6 * 4096 * 4096 * static_cast<double>(m) / us;
  result.speedup_vs_f16 = dense_us / us;
  result.reason = "why, indeed";
  result.cache = "cold";
  result.read_gb_per_s = 4000;
  result.dense_tflop_per_s = 700;
  return result;
}

Record measured() {
  Record record = test::record("0123456789abcdef", "none", 0, 1, {});
  record.settings = {{"kernels.like", "llama-7b"}, {"kernels.m", "1, 64, 256"}};
  record.metrics = {test::metric("kernels.read.gb_per_s", 4000),
                    test::metric("kernels.float16.tflop_per_s", 700)};
  record.environment.gpu = "Test GPU";
  record.kernels = {row("dense", 1, 14, 14),   row("dense", 64, 14, 14), row("dense", 256, 20, 20),
                    row("few", 1, 4, 14),      row("few", 64, 16, 14),   row("many", 64, 12, 14),
                    row("many", 256, 22.5, 20)};
  record.kernels[6].throttled = "power cap";
  return record;
}

TEST(KernelsReport, RowsComeBackFromTheRecord) {
  const Record record = measured();
  const Record read = record_from_json(to_json(record), "r");
  EXPECT_EQ(kernels_csv({read}), kernels_csv({record}));
  EXPECT_EQ(read.kernels.size(), 7u);
  EXPECT_EQ(kernels_csv({test::record("1", "rtn", 4, 5, {})}), "");
}

TEST(KernelsReport, CsvHasTheFixedColumnsFirstAndEveryRow) {
  const std::string csv = kernels_csv({measured()});
  EXPECT_THAT(csv, StartsWith(kFixedColumns));
  EXPECT_THAT(csv, HasSubstr("\r\nfew,4096,4096,1,4,128,true,false,float16,4,4,4,"));
  // A dense product has no groups.
  EXPECT_THAT(csv, HasSubstr("\r\ndense,4096,4096,1,16,,,,float16,14,14,14,"));
  EXPECT_THAT(csv, AllOf(HasSubstr("\"why, indeed\""), HasSubstr("power cap"),
                         HasSubstr("Test GPU,0123456789abcdef")));
}

std::string kernels_text(const Record& record) {
  std::string text;
  for (const Section& section : kernel_sections({&record})) text += markdown_text(section) + "\n";
  return text;
}

// PF-02: a kernel that is slower is called so, and from which M on.
TEST(KernelsReport, TableSaysWhereTheDenseProductWins) {
  const Record record = measured();
  const std::string table = kernels_text(record);
  EXPECT_THAT(table, AllOf(HasSubstr("plain read of 1 GiB 4000 GB/s"),
                           HasSubstr("large dense product in float16 700.0 TFLOP/s"),
                           HasSubstr("0.875x, slower"), HasSubstr("3.50x"), HasSubstr("power cap"),
                           HasSubstr("in a CUDA graph")));
  // At 64 one kernel is slower and another faster, so it is 256.
  const std::string crossover = table.substr(table.find("## Where the dense product wins"));
  EXPECT_THAT(crossover, testing::ContainsRegex("4 bits, g128 \\| float16 \\| +1 – 256 \\| +256 "));
  Record shorter = record;
  shorter.kernels.pop_back();
  EXPECT_THAT(kernels_text(shorter), HasSubstr("not up to 64"));
  const Record other = test::record("1", "rtn", 4, 5, {});
  EXPECT_EQ(kernels_text(other), "");
}

TEST(KernelsReport, RooflineHasAPointForEachRow) {
  const std::string svg = roofline_svg(measured());
  EXPECT_EQ(count(svg, "<title>"), 7u);
  EXPECT_THAT(svg,
              AllOf(StartsWith("<svg "), HasSubstr("Test GPU"), HasSubstr("read 4000 GB/s"),
                    HasSubstr("float16 700"), HasSubstr("few, 4096 x 4096, M 1"),
                    testing::EndsWith("</svg>\n"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
  EXPECT_EQ(roofline_svg(test::record("1", "rtn", 4, 5, {})), "");
}

TEST(KernelsReport, IntensityCountsEveryByteOnce) {
  // 2 * 64 * 4096^2 operations over half a byte a weight, and two bytes for each of x and y.
  EXPECT_NEAR(row("few", 64, 1, 1).intensity(),
              2.0 * 64 * 4096 * 4096 / (4096 * 4096 / 2 + 2 * 64 * (4096 + 4096)), 1e-9);
}

}  // namespace
}  // namespace gptqb
