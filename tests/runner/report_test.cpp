#include "runner/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <clocale>
#include <limits>
#include <locale>
#include <nlohmann/json.hpp>
#include <regex>

#include "common/atomic_file.h"
#include "runner/report/baseline.h"
#include "runner/report/csv_table.h"
#include "runner/report/layers_csv.h"
#include "runner/report/markdown_table.h"
#include "runner/report/number_format.h"
#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

using test::layer;
using test::metric;
using test::record;
using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Rows and cells of RFC 4180 text, with the apostrophe before formulas taken away again.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string& cell = rows.back().back();
    if (quoted && text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      cell += '"';
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && text[i] == ',') {
      rows.back().emplace_back();
    } else if (!quoted && text[i] == '\r') {
      ++i;
      rows.emplace_back(1, "");
    } else {
      cell += text[i];
    }
  }
  rows.pop_back();
  for (auto& row : rows)
    for (std::string& cell : row)
      if (cell.size() > 1 && cell[0] == '\'') cell.erase(0, 1);
  return rows;
}

// Dense, RTN and GPTQ at 4 bits on the same four windows.
std::vector<Record> three_records() {
  std::vector<Record> records = {record("d", "none", 0, 10, {1, 2, 3, 4}),
                                 record("r", "rtn", 4, 12, {1.5, 2.5, 3.5, 4.5}),
                                 record("g", "gptq", 4, 10.5, {1.25, 2.125, 3.25, 4.125})};
  for (size_t i = 0; i < records.size(); ++i) records[i].position = static_cast<int64_t>(i);
  records[2].metrics[0].standard_error = 0.25;
  records[2].metrics.push_back(metric("bits_per_weight.linear", 4.125));
  records[2].metrics.push_back(metric("seconds.quantize", 2.5));
  WindowsRecord calibration = records[2].inputs.windows[0];
  calibration.role = "calibration";
  calibration.dataset = "c4@train";
  calibration.count = 128;
  calibration.seqlen = 2048;
  records[2].inputs.windows.insert(records[2].inputs.windows.begin(), calibration);
  return records;
}

TEST(NumberFormatTest, SignificantDigits) {
  EXPECT_EQ(significant_text(5.85, 4), "5.850");
  EXPECT_EQ(significant_text(9.99996, 4), "10.00");
  EXPECT_EQ(significant_text(0.000123456, 3), "0.000123");
  EXPECT_EQ(significant_text(1.5e-7, 2), "1.5e-07");
  EXPECT_EQ(significant_text(123456, 3), "123456");
  EXPECT_EQ(significant_text(-0.5, 2), "-0.50");
  EXPECT_EQ(significant_text(0, 3), "0");
  EXPECT_EQ(signed_text(0.012, 2), "+0.012");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(bytes_text(1536.0 * 1024 * 1024), "1.5 GiB");
  EXPECT_EQ(bytes_text(100), "100 B");
  EXPECT_EQ(duration_text(8.24), "8.2 s");
  EXPECT_EQ(duration_text(309), "5:09");
  EXPECT_EQ(duration_text(3909), "1:05:09");
}

TEST(CsvTableTest, ExactBytes) {
  CsvTable table;
  table.add_column("a");
  table.add_row();
  table.set("a", "x,y");
  table.set("b", 0.5);
  table.add_row();
  table.set("b", std::optional<double>());
  table.set("c", int64_t{-3});
  EXPECT_EQ(table.text(), "a,b,c\r\n\"x,y\",0.5,\r\n,,-3\r\n");
}

// Faults EH-12: anything a name may hold comes back through CSV, and no spreadsheet takes it for a
// formula.
TEST(CsvTableTest, AnyTextSurvivesAndFormulasAreText) {
  const std::vector<std::string> texts = {
      "quote \" backslash \\ percent % tab \t newline \n comma ,",
      "=1+1",
      "+cmd",
      "-x",
      "@sum",
      "'quoted",
      "über 模型",
      "-1",
      "1e-5",
      ""};
  CsvTable table;
  for (const std::string& text : texts) {
    table.add_row();
    table.set("text", text);
  }
  const auto rows = parse_csv(table.text());
  ASSERT_EQ(rows.size(), texts.size() + 1);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(rows[i + 1][0], texts[i]);
  EXPECT_THAT(table.text(), HasSubstr("\r\n'=1+1\r\n'+cmd\r\n'-x\r\n'@sum\r\n''quoted\r\n"));
  EXPECT_THAT(table.text(), HasSubstr("\r\n-1\r\n1e-5\r\n"));
}

TEST(MarkdownTableTest, PadsByLettersNotBytesAndEscapes) {
  MarkdownTable table;
  table.add_column("name");
  table.add_column("value", true);
  table.add_row({"a|b<unk>", "1 ± 2"});
  table.add_row({"x\ny", "3"});
  EXPECT_EQ(table.text(),
            "| name       | value |\n"
            "| ---------- | ----: |\n"
            "| a\\|b\\<unk> | 1 ± 2 |\n"
            "| x y        |     3 |\n");
}

TEST(ReportTest, FilesAndLinesOfTheRegistryAgree) {
  std::vector<std::string> files;
  const std::filesystem::path folder =
      std::filesystem::path(GPTQB_SOURCE_DIR) / "runner" / "report";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("format_", 0) == 0) files.push_back(entry.path().stem().string().substr(7));
  }
  EXPECT_THAT(report_formats().names(), testing::UnorderedElementsAreArray(files));
}

TEST(ReportTest, EveryFormatTakesNoRecordsAndFailedOnes) {
  Record failed = record("f", "gptq", 4, 5, {1});
  failed.status = CellStatus::kFailed;
  failed.metrics.clear();
  for (const auto& entry : report_formats().entries()) {
    EXPECT_NE(entry.make.render({}), "") << entry.name;
    EXPECT_NE(entry.make.render({{failed}, {}, {"a damaged file"}}), "") << entry.name;
  }
}

TEST(ReportTest, CsvHasTheFixedColumnsFirst) {
  const auto rows = parse_csv(report_formats().at("csv").make.render({three_records(), {}, {}}));
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_THAT(rows[0],
              ElementsAre("cell_id", "experiment", "status", "reason", "model.path", "method.name",
                          "quant.bits", "quant.group_size", "perplexity.wikitext2",
                          "bits_per_weight.linear", "seconds.quantize",
                          "perplexity.wikitext2.stderr", "windows.wikitext2", "seqlen.wikitext2",
                          "loss_vs_dense.wikitext2", "loss_vs_dense.wikitext2.ci95",
                          "loss_vs_rtn.wikitext2", "loss_vs_rtn.wikitext2.ci95", "fallback_layers",
                          "resumed_blocks", "device", "commit"));
  EXPECT_THAT(rows[1],
              ElementsAre("d", "tiny", "ok", "", "m", "none", "", "", "10", "", "", "", "4", "8",
                          "0", "0", "", "", "0", "0", "Test CPU", "0123456789abcdef"));
  EXPECT_EQ(rows[3][14], "0.1875");
  EXPECT_EQ(rows[3][16], "-0.3125");
}

// Faults EH-13: every row has as many cells as the header, also those without metrics.
TEST(ReportTest, SkippedAndFailedCellsKeepTheirRows) {
  std::vector<Record> records = three_records();
  records[1].status = CellStatus::kFailed;
  records[1].reason = "out of memory, \"really\"\n=bad";
  records[1].metrics.clear();
  const auto rows = parse_csv(report_formats().at("csv").make.render({records, {}, {}}));
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  EXPECT_EQ(rows[2][2], "failed");
  EXPECT_EQ(rows[2][3], records[1].reason);
  EXPECT_EQ(rows[3][16], "") << "a failed cell is no baseline";
  const std::string table = report_formats().at("md").make.render({records, {}, {}});
  EXPECT_THAT(table, HasSubstr("failed, see below"));
  EXPECT_THAT(table,
              HasSubstr("- r (rtn 4 bits, whole rows): failed: out of memory, \"really\" =bad\n"));
}

TEST(ReportTest, ValuesThatAreNotFiniteHaveADocumentedToken) {
  std::vector<Record> records = three_records();
  records[1].metrics[0].value = std::numeric_limits<double>::infinity();
  const auto rows = parse_csv(report_formats().at("csv").make.render({records, {}, {}}));
  EXPECT_EQ(rows[2][8], "inf");
}

TEST(ReportTest, TableShowsDifferencesAndWhatTheyStandOn) {
  const std::string table = report_formats().at("md").make.render({three_records(), {}, {}});
  // Differences 0.25, 0.125, 0.25, 0.125: mean 0.1875, deviation 0.0722, t(3) = 3.182, half width
  // 0.1148.
  EXPECT_THAT(table,
              HasSubstr("| gptq   |    4 |   row | c4@train 128 x 2048 |        10.500 ± 0.25 | "
                        "+0.188 ± 0.11 | -0.312 ± 0.11 |   4 x 8 |       4.125 |        2.50 |"));
  EXPECT_THAT(table, HasSubstr("(baseline)"));
  EXPECT_THAT(table, HasSubstr("- calibration: c4@train, 128 windows of 2048 tokens"));
  EXPECT_THAT(
      table, HasSubstr("- evaluation: wikitext2@test, 4 windows of 8 tokens, from 3 documents with "
                       "35 tokens (3 left over), ids sha256 0123456789ab\n"));
  EXPECT_THAT(table, HasSubstr("- device: Test CPU (2 threads)\n"));
  EXPECT_THAT(table,
              HasSubstr("gptq-bench 0.1.0 (commit 0123456789ab, GNU-12, torch 2.11.0, without "
                        "CUDA), Test OS\n"));
  EXPECT_THAT(table, HasSubstr("- all cells that have the key: model.path = m, quant.bits = 4, "
                               "quant.group_size = -1\n"));
}

// Long paths make tables that nobody can read; their ends tell models apart, as far as they are
// needed. What programs read has them whole.
TEST(ReportTest, ModelsAreShownByTheEndsOfTheirPaths) {
  std::vector<Record> records;
  const std::vector<std::string> paths = {"${MODELS:-models}/first/opt-125m", "/second/opt-125m",
                                          "/second/opt-350m"};
  for (size_t i = 0; i < paths.size(); ++i) {
    records.push_back(record("000000000000000" + std::to_string(i), "gptq", 4,
                             10 + static_cast<double>(i), {2.5, 2.5}));
    records.back().settings[0].second = paths[i];
    Expectation published;
    published.metric = "perplexity.wikitext2";
    published.value = 10;
    records.back().expectations.push_back(published);
  }
  const ReportData data{records, {}, {}};
  const std::string table = report_formats().at("md").make.render(data);
  EXPECT_THAT(table, AllOf(HasSubstr("| first/opt-125m "), HasSubstr("| second/opt-125m "),
                           HasSubstr("| opt-350m ")));
  EXPECT_THAT(table, Not(HasSubstr("| /second")));
  // The published layout has a column for each of them.
  const size_t paper = table.find("| first/opt-125m", table.find("wikitext2\n\n"));
  EXPECT_THAT(table.substr(std::min(paper, table.size())),
              AllOf(HasSubstr("second/opt-125m"), HasSubstr("opt-350m")))
      << table;
  for (const char* format : {"json", "csv"})
    EXPECT_THAT(report_formats().at(format).make.render(data),
                AllOf(HasSubstr("${MODELS:-models}/first/opt-125m"), HasSubstr("/second/opt-125m")))
        << format;
}

TEST(ReportTest, DivergenceHasATableWithPairedDifferences) {
  std::vector<Record> records = three_records();
  const std::vector<std::vector<double>> kl = {{0, 0, 0}, {0.25, 0.5, 0.75}, {0.125, 0.25, 0.75}};
  for (size_t i = 0; i < records.size(); ++i) {
    WindowsRecord windows = records[i].inputs.windows.back();
    windows.evaluator = "divergence";
    windows.count = 3;
    windows.seqlen = 16;
    records[i].inputs.windows.push_back(windows);
    const std::string prefix = "divergence.wikitext2.";
    records[i].metrics.push_back(metric(prefix + "mean_kl", 0.5, kl[i]));
    records[i].metrics.back().standard_error = 0.03125;
    records[i].metrics.push_back(metric(prefix + "p99_kl", 2.5));
    records[i].metrics.push_back(metric(prefix + "max_kl", 4.25));
    records[i].metrics.push_back(metric(prefix + "top1_agreement", 0.875));
    records[i].metrics.push_back(metric(prefix + "right_token_probability_change", -0.0125));
  }
  const std::string table = report_formats().at("md").make.render({records, {}, {}});
  // Differences -0.125, -0.25, 0: mean -0.125, deviation 0.125, t(2) = 4.303, half width 0.3105.
  EXPECT_THAT(table,
              HasSubstr("| gptq 4 bits, whole rows | wikitext2 | 0.500 ± 0.031 | tie (-0.125 "
                        "± 0.31) | 2.50 | 4.25 |    87.50 |          -1.25 |  3 x 16 |"));
  EXPECT_THAT(table, HasSubstr("(baseline)"));
  EXPECT_THAT(table, HasSubstr("4 x 8 |")) << "perplexity keeps its own windows";
  const auto rows = parse_csv(report_formats().at("csv").make.render({records, {}, {}}));
  EXPECT_THAT(rows[0], testing::IsSupersetOf({"divergence.wikitext2.mean_kl",
                                              "divergence.wikitext2.mean_kl.stderr",
                                              "divergence.wikitext2.top1_agreement"}));
}

TEST(ReportTest, DifferencesInsideTheIntervalAreTies) {
  const std::vector<Record> records = {record("d", "none", 0, 10, {1, 2, 3, 4}),
                                       record("r", "rtn", 4, 10, {1.25, 1.75, 3.25, 3.75})};
  EXPECT_THAT(report_formats().at("md").make.render({records, {}, {}}),
              HasSubstr("tie (0 ± 0.46)"));
}

TEST(ReportTest, OtherWindowsAreNoBaseline) {
  std::vector<Record> records = three_records();
  records[0].inputs.windows[0].ids_sha256 = "other";
  const auto rows = parse_csv(report_formats().at("csv").make.render({records, {}, {}}));
  EXPECT_EQ(rows[3][14], "");
  records = three_records();
  records[0].inputs.model_fingerprint = "another model";
  EXPECT_EQ(parse_csv(report_formats().at("csv").make.render({records, {}, {}}))[3][14], "");
}

// Faults QN-05: a table row says so, not only a log.
TEST(ReportTest, FallbackResumedAndSyntheticAreMarked) {
  std::vector<Record> records = three_records();
  records[2].layers = {layer("a", "rtn: singular"), layer("b", "rtn: singular"), layer("c")};
  records[2].resumed_blocks = 1;
  records[2].settings.emplace_back("model.synthetic.like", "llama-7b");
  const std::string table = report_formats().at("md").make.render({records, {}, {}});
  EXPECT_THAT(table, HasSubstr("synthetic weights; fallback in 2 layers; resumed |"));
  EXPECT_THAT(table, HasSubstr("layers that fell back: a, b\n"));
}

TEST(ReportTest, SeedsGetMeanAndDeviation) {
  std::vector<Record> records = {record("a", "gptq", 4, 10, {1}), record("b", "gptq", 4, 12, {1})};
  records[0].settings.emplace_back("calibration.seed", "0");
  records[1].settings.emplace_back("calibration.seed", "1");
  EXPECT_THAT(
      report_formats().at("md").make.render({records, {}, {}}),
      HasSubstr("| gptq 4 bits, whole rows | perplexity.wikitext2 | 11.000 |       1.4 |     2 |"));
}

TEST(ReportTest, SeedsOfCellsWithOneLabelAreToldApart) {
  std::vector<Record> records;
  for (const char* damping : {"0.01", "0.1"})
    for (const char* seed : {"0", "1"}) {
      records.push_back(record(std::string(damping) + seed, "gptq", 4, 10, {1}));
      records.back().settings.emplace_back("calibration.seed", seed);
      records.back().settings.emplace_back("method.damping", damping);
    }
  const std::string table = report_formats().at("md").make.render({records, {}, {}});
  for (const char* damping : {"0.01", "0.1 "})
    EXPECT_THAT(table, HasSubstr("| gptq 4 bits, whole rows | " + std::string(damping) +
                                 "           | perplexity.wikitext2 | 10.000 |"));
}

TEST(ReportTest, SettingsThatOnlySomeCellsHaveTellThemApart) {
  std::vector<Record> records = {record("a", "gptq", 4, 10, {1}), record("b", "gptq", 4, 12, {1}),
                                 record("c", "none", 4, 9, {1})};
  records[0].settings.emplace_back("method.order", "reverse");
  for (Record& one : records)
    if (one.cell_id != "c") one.settings.emplace_back("method.block_size", "128");
  const std::string table = report_formats().at("md").make.render({records, {}, {}});
  EXPECT_THAT(table, HasSubstr("| method.order |"));
  EXPECT_THAT(table, HasSubstr("| reverse "));
  EXPECT_THAT(table, Not(HasSubstr("| method.block_size |"))) << "only the dense model lacks it";
}

TEST(ReportTest, TheBaselineIsTheRtnOfTheSamePolicies) {
  std::vector<Record> records = {record("ignores", "rtn", 4, 10, {1}),
                                 record("honours", "rtn", 4, 9, {1}),
                                 record("g", "gptq", 4, 8, {1})};
  records[0].settings.emplace_back("compat.rtn_groups", "reference");
  records[1].settings.emplace_back("compat.rtn_groups", "honour");
  records[2].settings.emplace_back("compat.rtn_groups", "honour");
  EXPECT_EQ(rtn_baseline(records[2], records, "wikitext2")->cell_id, "honours");
}

// A dense model whose attention rounds scores is another one.
TEST(ReportTest, TheDenseBaselineComputesItsForwardPassAlike) {
  std::vector<Record> records = {record("fused", "none", 4, 10, {1}),
                                 record("rounded", "none", 4, 9, {1}),
                                 record("g", "gptq", 4, 12, {1}), record("h", "gptq", 4, 8, {1})};
  records[1].settings.emplace_back("compat.forward", "reference");
  records[3].settings.emplace_back("compat.forward", "reference");
  EXPECT_EQ(dense_baseline(records[2], records, "wikitext2")->cell_id, "fused");
  EXPECT_EQ(dense_baseline(records[3], records, "wikitext2")->cell_id, "rounded");
}

TEST(ReportTest, WeightsAndActivationsOfEightBitsAreLabelled) {
  std::vector<Record> records = {record("a", "gptq", 4, 10, {1}),
                                 record("b", "llm_int8", 8, 9, {1}),
                                 record("c", "llm_int8", 8, 11, {1})};
  records[0].settings.emplace_back("overrides", "[{match: a, method.name: llm_int8}]");
  records[2].settings.emplace_back("overrides", "[{match: a, method.name: gptq}]");
  const std::string table = report_formats().at("md").make.render({records, {}, {}});
  for (const char* label : {"| 4 and W8A8 |", "| W8A8 |", "| W8A8, mixed |"})
    EXPECT_THAT(std::regex_replace(table, std::regex(" +"), " "), HasSubstr(label));
}

TEST(ReportTest, VerdictsAreInTableAndJson) {
  Verdict verdict;
  verdict.experiment = "tiny";
  verdict.cell_id = "g";
  verdict.metric = "perplexity.wikitext2";
  verdict.expected = "10 +- 1";
  verdict.measured = 10.5;
  verdict.deviation = 0.5;
  verdict.deviation_text = "+0.500 (+5.0 %)";
  verdict.outcome = Outcome::kPass;
  verdict.source = "a paper";
  verdict.where = "method.name: gptq";
  const ReportData data{three_records(), {verdict}, {}};
  EXPECT_THAT(report_formats().at("md").make.render(data),
              HasSubstr("| gptq 4 bits, whole rows | perplexity.wikitext2 |  10 +- 1 |   10.500 | "
                        "+0.500 (+5.0 %) "
                        "| PASS    | a paper |\n"));
  // Cells of one label are told apart, as in the other tables.
  ReportData two = data;
  two.records.push_back(two.records[2]);
  two.records[2].settings.emplace_back("method.damping", "0.01");
  two.records[3].cell_id = "h";
  two.records[3].settings.emplace_back("method.damping", "0.1");
  EXPECT_THAT(report_formats().at("md").make.render(two),
              HasSubstr("| gptq 4 bits, whole rows | 0.01           | perplexity.wikitext2 |"));
  const auto json = nlohmann::json::parse(report_formats().at("json").make.render(data));
  EXPECT_EQ(json["schema_version"], 1);
  EXPECT_EQ(json["records"].size(), 3u);
  EXPECT_EQ(json["records"][2]["metrics"][0]["stderr"], 0.25);
  EXPECT_EQ(json["verdicts"][0]["verdict"], "PASS");
}

TEST(ReportTest, LayersHaveTheDocumentedColumns) {
  Record sample = record("g", "gptq", 4, 5, {1});
  sample.layers = {layer("model.layers.0.q")};
  sample.layers[0].rule = "a: quant.bits 8";
  sample.layers[0].note = "b";
  EXPECT_EQ(
      layers_csv({sample}),
      "cell_id,layer,method,bits,group_size,loss,relative_error,relative_error_heldout,"
      "relative_error_rtn,drift,damping,damping_tries,condition,dead_columns,non_finite_inputs,"
      "outlier_share,clipped,tokens,sequences,status,seconds_hessian,seconds_factor,seconds_"
      "solve,rule,rows_solved,note,codes,seconds_errors,out_features,in_features,"
      "hessian_shared_by\r\n"
      "g,model.layers.0.q,gptq,4,-1,1.5,0.25,,,,,0,,0,0,,0,0,0,ok,0,0,0,a: quant.bits "
      "8,,b,,0,,,\r\n");
}

TEST(ReportTest, RulesAreListedWithTheLayersTheyTook) {
  std::vector<Record> records = three_records();
  EXPECT_THAT(report_formats().at("md").make.render({records, {}, {}}), Not(HasSubstr("rule")));
  for (const char* name : {"0.q", "0.k", "0.down", "1.q", "1.k", "1.down"}) {
    records[2].layers.push_back(layer(name));
    if (name[2] != 'd') records[2].layers.back().rule = "*.[qk]: quant.bits 8";
  }
  records[2].layers.back().rule = "1.*: skip true";
  records[2].metrics.push_back(metric("bits_per_weight.model", 7.0625));
  EXPECT_THAT(report_formats().at("md").make.render({records, {}, {}}),
              HasSubstr("## Which rule took which layer\n\n"
                        "- g (gptq 4 bits, whole rows), bits a weight 4.125 of the linears, 7.062 "
                        "of the model\n"
                        "  - `*.[qk]: quant.bits 8` -> 4 layers, e.g. 0.q, 0.k, 1.q\n"
                        "  - no rule -> 1 layer: 0.down\n"
                        "  - `1.*: skip true` -> 1 layer: 1.down\n"));
}

// Milliseconds by hand: of each shape the median layer, of a width the whole H of a stage.
TEST(ReportTest, SolversAreSetBesideEachOtherByShape) {
  std::vector<Record> records = three_records();
  const auto text = [&] { return report_formats().at("md").make.render({records, {}, {}}); };
  const auto timed = [](const std::string& name, int64_t rows, int64_t columns, int64_t sharing,
                        double hessian, double factor, double solve) {
    LayerHealth health = layer(name);
    health.out_features = rows;
    health.in_features = columns;
    health.hessian_shared_by = sharing;
    health.seconds_hessian = hessian;
    health.seconds_factor = factor;
    health.seconds_solve = solve;
    return health;
  };
  const auto add = [&](const std::string& id, const std::string& solver, double slower) {
    Record sample = record(id, "gptq", 3, 5, {1});
    sample.settings.emplace_back("method.solver", solver);
    if (solver == "fast") sample.settings.emplace_back("method.precision", "tf32x3");
    sample.layers = {timed("0.q", 64, 64, 2, 0.004, 0.5, 0.9),
                     timed("0.k", 64, 64, 2, 0.004, 0, 0.002 * slower),
                     timed("0.o", 64, 64, 1, 0.006, 0.001 * slower, 0.001 * slower),
                     timed("0.down", 64, 256, 1, 0.02, 0.01 * slower, 0.03 * slower)};
    records.push_back(sample);
  };
  add("f", "fast", 1);
  EXPECT_THAT(text(), Not(HasSubstr("Layers by shape"))) << "one cell has none beside it";
  add("p", "reference", 10);
  EXPECT_THAT(text(), HasSubstr("## Layers by shape: time of each solver"));
  const auto row = [](const std::string& cells) {
    return ContainsRegex(std::regex_replace(cells, std::regex(" ?\\| ?"), " *\\| *"));
  };
  EXPECT_THAT(
      text(),
      AllOf(row("64 x 64 | gptq 3 bits, whole rows | fast | 3 | 6.00 | 1.00 | 2.00 | 3.00 | 1.00x "
                "| 10.0x"),
            row("64 x 64 | gptq 3 bits, whole rows | reference | 3 | 6.00 | 10.0 | 20.0 | 30.0 |"),
            row("64 x 256 | gptq 3 bits, whole rows | fast | 1 | 20.0 | 10.0 | 30.0 | 40.0 | 1.00x "
                "| 10.0x")));
  EXPECT_THAT(text(), HasSubstr("the published algorithm step by step.\n"));

  // A GPU takes its blocks of columns in one kernel each, unless it is told not to.
  for (Record& sample : records) sample.environment.device = "cuda:0";
  EXPECT_THAT(text(),
              AllOf(row("64 x 64 | gptq 3 bits, whole rows | reference, a kernel a block | 3"),
                    Not(HasSubstr("the published algorithm step by step")),
                    HasSubstr("each block of columns in one kernel of ours")));
  for (Record& sample : records)
    if (!sample.setting("method.solver").empty())
      sample.settings.emplace_back("method.step_by_step", "true");
  EXPECT_THAT(text(), AllOf(row("64 x 64 | gptq 3 bits, whole rows | reference | 3"),
                            HasSubstr("the published algorithm step by step.\n")));
}

TEST(ReportTest, BlockSizesAreSetBesideEachOtherWithTheirTimeAndCodes) {
  std::vector<Record> records = three_records();
  const auto text = [&] { return report_formats().at("md").make.render({records, {}, {}}); };
  EXPECT_THAT(text(), Not(HasSubstr("Blocks of columns")));
  const auto add = [&](const std::string& id, const std::string& block, const std::string& second,
                       double seconds) {
    Record sample = record(id, "gptq", 3, 5, {1});
    sample.settings.emplace_back("method.solver", "reference");
    sample.settings.emplace_back("method.block_size", block);
    sample.layers = {layer("0.q"), layer("0.k")};
    sample.layers[0].codes = "aaaaaaaaaaaaaaaa";
    sample.layers[1].codes = second;
    sample.seconds = {{"solve", seconds}};
    records.push_back(sample);
  };
  add("a1", "1", "bbbbbbbbbbbbbbbb", 2.5);
  EXPECT_THAT(text(), Not(HasSubstr("Blocks of columns"))) << "one cell has none beside it";
  add("a8", "8", "bbbbbbbbbbbbbbbb", 1.25);
  add("a32", "32", "cccccccccccccccc", 0.5);
  EXPECT_THAT(text(), HasSubstr("## Blocks of columns: time and codes"));
  EXPECT_THAT(text(), AllOf(ContainsRegex("\\| +1 \\| +2.50 \\| [0-9a-f]+ \\| first +\\|"),
                            ContainsRegex("\\| +8 \\| +1.25 \\| [0-9a-f]+ \\| 2 of 2 +\\|"),
                            ContainsRegex("\\| +32 \\| +0.500 \\| [0-9a-f]+ \\| 1 of 2 +\\|")));
}

TEST(ReportTest, WritesAllFilesAndCanBeRebuiltFromRecords) {
  const test::TemporaryFolder folder;
  for (const Record& sample : three_records()) write_record(folder.path(), sample);
  const LoadedRecords loaded = load_records(folder.path());
  const auto files = write_reports(folder.path(), {loaded.records, {}, loaded.damaged});
  ASSERT_EQ(files.size(), 6u);
  EXPECT_EQ(read_file(folder.path() / "table.md"),
            report_formats().at("md").make.render({three_records(), {}, {}}));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "results.csv"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "results.json"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "layers.csv"));
}

// A locale with a decimal comma and grouped thousands, as de_DE has.
class CommaNumbers : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

// Faults EH-14: the same bytes whatever the global locale.
TEST(ReportTest, ADecimalCommaLocaleChangesNoByte) {
  std::vector<Record> records = three_records();
  records[0].layers = {layer("a")};
  std::vector<std::string> before = {to_json(records[2]), layers_csv(records)};
  for (const auto& entry : report_formats().entries())
    before.push_back(entry.make.render({records, {}, {}}));

  const std::locale old =
      std::locale::global(std::locale(std::locale::classic(), new CommaNumbers));
  const bool german =
      std::setlocale(LC_ALL, "de_DE.UTF-8") || std::setlocale(LC_ALL, "fr_FR.UTF-8");
  std::vector<std::string> after = {to_json(records[2]), layers_csv(records)};
  for (const auto& entry : report_formats().entries())
    after.push_back(entry.make.render({records, {}, {}}));
  const double reread = record_from_json(before[0], "x").metrics[0].value;
  std::setlocale(LC_ALL, "C");
  std::locale::global(old);

  EXPECT_EQ(before, after) << (german ? "with a system locale" : "with a locale of our own");
  EXPECT_EQ(reread, 10.5);
}

}  // namespace
}  // namespace gptqb
