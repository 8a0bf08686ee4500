// table.tex: nothing of a record becomes a command, every row fits its table, and the layout is
// that of the papers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runner/report/latex_text.h"
#include "runner/report/report.h"
#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

using test::metric;
using test::record;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string latex(const std::vector<Record>& records) {
  return report_formats().at("latex").make.render({records, judge_records(records), {}});
}

// Faults of LaTeX text without compiling it: braces and environments that do not match, a row with
// more or fewer cells than its table has columns, and special characters outside their use.
std::vector<std::string> faults_of(const std::string& text) {
  std::vector<std::string> faults;
  std::vector<std::string> open;
  int braces = 0;
  size_t columns = 0, cells = 1;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    const auto starts = [&](const std::string& word) {
      return text.compare(i, word.size(), word) == 0;
    };
    const auto argument_at = [&](size_t brace) {
      return text.substr(brace + 1, text.find('}', brace) - brace - 1);
    };
    if (letter == '%') {  // a comment
      i = text.find('\n', i);
      continue;
    }
    if (starts("\\begin{")) {
      open.push_back(argument_at(i + 6));
      if (open.back() == "tabular" || open.back() == "longtable")
        columns = argument_at(text.find('}', i) + 1).size();
    } else if (starts("\\end{")) {
      if (open.empty() || open.back() != argument_at(i + 4)) faults.push_back("end of another one");
      if (!open.empty()) open.pop_back();
    } else if (starts("\\multicolumn{")) {
      cells += static_cast<size_t>(std::stoi(argument_at(i + 12))) - 1;
    } else if (starts("\\\\")) {
      if (cells != columns && !text.substr(text.rfind('\n', i) + 1).starts_with("\\caption"))
        faults.push_back("a row of " + std::to_string(cells) + " cells in " +
                         std::to_string(columns) + " columns");
      cells = 1;
    }
    if (letter == '\\') {
      ++i;  // the next one is part of its name
      continue;
    }
    if (letter == '&') ++cells;
    if (letter == '{') ++braces;
    if (letter == '}' && --braces < 0) faults.push_back("a brace too many");
    if (letter == '#' || letter == '_' || letter == '^')
      faults.push_back(std::string("a bare ") + letter);
    if (static_cast<unsigned char>(letter) < ' ' && letter != '\n')
      faults.push_back("a control character");
  }
  if (braces != 0) faults.push_back("a brace is missing");
  if (!open.empty()) faults.push_back("no end of " + open.back());
  return faults;
}

const std::string kHostile =
    "\\input{/etc/passwd} 100 % & _x^2 {#1} $a$ ~ [1] *b -- \"q\" <t> | \n\t\x01 模型 é ± – \xff";

TEST(LatexText, EverySpecialCharacterIsEscaped) {
  EXPECT_EQ(latex_escape("a_b & 50 % #1 $x$ {y}"), "a\\_b \\& 50 \\% \\#1 \\$x\\$ \\{y\\}");
  EXPECT_EQ(latex_escape("\\end~^"), "\\textbackslash{}end\\textasciitilde{}\\textasciicircum{}");
  EXPECT_EQ(latex_escape("<a|b>"), "\\textless{}a\\textbar{}b\\textgreater{}");
  // A row that begins with one of these would be taken for an argument of the row before.
  EXPECT_EQ(latex_escape("[1] *"), "{[}1{]} {*}");
  EXPECT_EQ(latex_escape("--fast"), "{-}{-}fast");
  EXPECT_EQ(latex_escape("a\nb\x01"), "a b ");
}

TEST(LatexText, LettersThatFontsLackAreNamed) {
  EXPECT_EQ(latex_escape("é 模 ± – ð"), "é \\texttt{U+6A21} $\\pm$ -- \\texttt{U+00F0}");
  EXPECT_EQ(latex_escape("a\xff"), "a\\texttt{U+FFFD}");
}

TEST(LatexReport, AnyTextOfARecordStaysText) {
  std::vector<Record> records = {record("d", "none", 0, 10, {1, 2}),
                                 record("g", "gptq", 4, 10.5, {1, 2})};
  for (Record& one : records) {
    one.experiment = kHostile;
    one.settings[0].second = "/models/" + kHostile;
    one.settings.emplace_back("method.note", one.cell_id + kHostile);
  }
  records.push_back(record("f", "gptq", 3, 5, {1}));
  records[2].status = CellStatus::kFailed;
  records[2].reason = kHostile;
  const std::string text =
      report_formats().at("latex").make.render({records, {}, {"damaged: " + kHostile}});
  EXPECT_THAT(faults_of(text), testing::IsEmpty()) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("\\textbackslash{}input\\{/etc/passwd\\}"),
                          HasSubstr("Cells without a result")));
}

Expectation published(const std::string& name, double value, double tolerance) {
  Expectation expectation;
  expectation.metric = name;
  expectation.value = value;
  expectation.tolerance_absolute = tolerance;
  expectation.source = "a paper";
  return expectation;
}

// The layout of the paper's tables 3 and 4: methods by falling bits, a line where bits change,
// models beside each other.
TEST(LatexReport, ModelsAreColumnsAndPublishedValuesStandBesideOurs) {
  std::vector<Record> records;
  for (const char* model : {"opt-125m", "opt-1.3b"}) {
    const bool large = std::string(model) == "opt-1.3b";
    const auto add = [&](const std::string& method, int bits, double perplexity) {
      records.push_back(
          record(method + std::to_string(bits) + model, method, bits, perplexity, {1}));
      records.back().settings[0].second = std::string("${MODELS}/") + model + "/";
      if (method == "none") records.back().settings.emplace_back("model.dtype", "float16");
    };
    add("none", 0, large ? 14.62 : 27.66);
    add("gptq", 3, large ? 20.97 : 53.85);
    add("rtn", 4, large ? 48.19 : 37.28);
    add("gptq", 4, large ? 15.47 : 31.12);
  }
  records[3].expectations = {published("perplexity.wikitext2", 31.12, 0.05)};
  records[1].expectations = {published("perplexity.wikitext2", 50, 0.5)};
  records[7].status = CellStatus::kSkipped;
  records[7].reason = "not run: no weights";
  records[7].metrics.clear();
  records[7].expectations = {published("perplexity.wikitext2", 15.47, 0.05)};
  const std::string text = latex(records);
  EXPECT_THAT(faults_of(text), testing::IsEmpty()) << text;
  EXPECT_THAT(
      text,
      HasSubstr("\\caption{Perplexity: wikitext2 (tiny)}\n"
                "\\begin{tabular}{lrrrrrr}\n"
                "\\toprule\n"
                " &  &  & \\multicolumn{2}{c}{opt{-}125m} & \\multicolumn{2}{c}{opt{-}1.3b} \\\\\n"
                "\\cmidrule(lr){4-5}\\cmidrule(lr){6-7}\n"
                "method & bits & group & ours & published & ours & published \\\\\n"
                "\\midrule\n"
                "none & 16 & -- & 27.66 & -- & 14.62 & -- \\\\\n"
                "\\midrule\n"
                "rtn & 4 & row & 37.28 & -- & 48.19 & -- \\\\\n"
                "gptq & 4 & row & 31.12 & 31.12~$\\surd$ & -- & 15.47~$\\circ$ \\\\\n"
                "\\midrule\n"
                "gptq & 3 & row & 53.85 & 50~$\\times$ & 20.97 & -- \\\\\n"
                "\\bottomrule\n"
                "\\end{tabular}\n"))
      << text;
  EXPECT_THAT(text, HasSubstr("$\\surd$ within the tolerance"));
  EXPECT_THAT(text, HasSubstr("skipped: not run: no weights"));
  // The same table as Markdown: verdicts in words.
  const std::string markdown =
      report_formats().at("md").make.render({records, judge_records(records), {}});
  EXPECT_THAT(markdown, AllOf(HasSubstr("## Perplexity: wikitext2\n"), HasSubstr("50 FAIL |"),
                              HasSubstr("15.47 not run |"), HasSubstr("opt-1.3b published |")));
}

TEST(LatexReport, DatasetsAreColumnsOfOneModelAndMadeUpWeightsHaveTimesOnly) {
  std::vector<Record> records = {record("r", "rtn", 4, 12.345, {1}),
                                 record("g", "gptq", 4, 1234.5, {1})};
  for (Record& one : records) one.metrics.push_back(metric("perplexity.ptb", 20, {1}));
  EXPECT_THAT(latex(records),
              AllOf(HasSubstr("method & bits & group & wikitext2 & ptb \\\\\n"),
                    HasSubstr("rtn & 4 & row & 12.35 & 20.00 \\\\\n"),
                    HasSubstr("gptq & 4 & row & 1234 & 20.00 \\\\\n"), Not(HasSubstr("surd"))));
  for (Record& one : records) one.metrics = {metric("seconds.quantize", 2.5)};
  EXPECT_THAT(latex(records), AllOf(HasSubstr("\\caption{Time, seconds of m (tiny)}"),
                                    HasSubstr("gptq & 4 & row & 2.500 \\\\\n")));
}

TEST(LatexReport, KernelsAreATableOverSeveralPages) {
  Record one = record("k", "", 0, 1, {});
  one.metrics = {metric("kernels.read.gb_per_s", 4000)};
  one.settings = {{"kernels.m", "[1]"}};
  KernelRow row;
  row.kernel = "cpu_w4";
  row.k = row.n = 64;
  row.m = 1;
  row.bits = 4;
  row.group_size = 32;
  row.dtype = "float16";
  row.us = 2;
  one.kernels = std::vector<KernelRow>(50, row);
  const std::string text = latex({one});
  EXPECT_THAT(faults_of(text), testing::IsEmpty()) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("\\begin{longtable}"), HasSubstr("cpu\\_w4")));
}

}  // namespace
}  // namespace gptqb
