// report.html: what is on it, where, and that nothing of a record is more than text.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/atomic_file.h"
#include "runner/report/html_text.h"
#include "runner/report/kernels_csv.h"
#include "runner/report/layers_csv.h"
#include "runner/report/report.h"
#include "tests/runner/record_samples.h"

namespace gptqb {
namespace {

using test::layer;
using test::record;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string html(const ReportData& data) { return report_formats().at("html").make.render(data); }

std::string html(const std::vector<Record>& records) {
  return html(ReportData{records, judge_records(records), {}});
}

// Between two marks of the page.
std::string part(const std::string& page, const std::string& from, const std::string& to) {
  const size_t start = page.find(from);
  return page.substr(start, page.find(to, start) - start);
}

TEST(HtmlText, EscapesForTextAndAttributes) {
  EXPECT_EQ(html_escape("<a href=\"x\" id='y'>&\n\x01\xff"),
            "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;  \xEF\xBF\xBD");
}

TEST(HtmlText, NumbersStandRightAndVerdictsHaveAMarkAndAWord) {
  ReportTable table;
  table.add_column("cell");
  table.add_column({"ours", true, false, "opt"});
  table.add_column({"published", true, true, "opt"});
  table.add_row({"a", "5.85 ± 0.02", "5.83 PASS"});
  table.add_row({"b", "–", "6.1 not run"});
  const std::string text = html_table(table, "T");
  EXPECT_THAT(text,
              AllOf(HasSubstr("<th rowspan=\"2\" scope=\"col\">cell</th>"),
                    HasSubstr("colspan=\"2\">opt</th>"),
                    HasSubstr("<td class=\"n\">5.85<span class=\"muted\"> ± 0.02</span></td>"),
                    HasSubstr("5.83 <span class=\"v pass\">✓ PASS</span>"),
                    HasSubstr("6.1 <span class=\"v absent\">○ not run</span>")));
}

TEST(HtmlReport, NothingOfARecordIsMarkup) {
  const std::string attack =
      "</td></script><script>alert(1)</script><img src=x onerror=alert(2)>\"'`";
  Record bad = record("x\"><script>", "gptq", 4, 5, {1});
  bad.status = CellStatus::kFailed;
  bad.reason = attack;
  bad.experiment = attack;
  bad.settings[0].second = "/models/" + attack;
  bad.notes = {attack};
  bad.environment.cpu = attack;
  bad.environment.argv = {attack};
  bad.layers = {layer(attack, attack)};
  bad.layers[0].rule = attack;
  Expectation expectation;
  expectation.metric = attack;
  expectation.value = 1;
  expectation.source = attack;
  bad.expectations = {expectation};
  Record other = record("y", "rtn", 4, 5, {1});
  other.experiment = attack;
  const std::string page = html({{bad, other}, judge_records({bad, other}), {attack}});
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<script>alert")), Not(HasSubstr("<img")),
                          HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;")));
  size_t scripts = 0;
  for (size_t at = 0; (at = page.find("<script", at)) != std::string::npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 1u) << "the page's own";
}

TEST(HtmlReport, WhatFailedOrDidNotRunStandsBeforeTheResults) {
  std::vector<Record> records = {record("a", "none", 0, 10, {1}), record("b", "rtn", 4, 12, {1}),
                                 record("c", "gptq", 4, 11, {1}), record("d", "awq", 4, 11, {1})};
  records[1].status = CellStatus::kFailed;
  records[1].reason = "out of memory";
  records[2].status = CellStatus::kSkipped;
  records[2].reason = "not run: no weights in /models";
  Expectation bound;
  bound.metric = "perplexity.wikitext2";
  bound.at_most = 10.5;
  records[3].expectations = {bound};
  const std::string page =
      html({records, judge_records(records), {"[x.json] expected JSON, got nothing"}});
  const std::string top = part(page, "<section id=\"problems\"", "<section id=\"results\"");
  EXPECT_THAT(top, AllOf(HasSubstr("out of memory"), HasSubstr("no weights in /models"),
                         HasSubstr("expected at most 10.5; off by"),
                         HasSubstr("expected JSON, got nothing"), HasSubstr("✗ FAIL"),
                         HasSubstr("○ not run")));
  EXPECT_THAT(page,
              AllOf(HasSubstr("<b>✓ 2</b> cells ok<"), HasSubstr("<b>✗ 1</b> cell failed<"),
                    HasSubstr("<b>○ 1</b> cell not run<"), HasSubstr("<b>✗ 1</b> damaged record<"),
                    Not(HasSubstr("Nothing failed"))));
  EXPECT_THAT(html({record("a", "none", 0, 10, {1})}), HasSubstr("Nothing failed"));
}

TEST(HtmlReport, HasWhatTheMarkdownTableHas) {
  const std::vector<Record> records = {record("d", "none", 0, 10, {1, 2, 3, 4}),
                                       record("g", "gptq", 4, 10.5, {1.25, 2.125, 3.25, 4.125})};
  EXPECT_THAT(html(records),
              AllOf(HasSubstr("<td class=\"n\">+0.188<span class=\"muted\"> ± 0.11</span></td>"),
                    HasSubstr("What the numbers stand on"), HasSubstr("Test CPU (2 threads)"),
                    HasSubstr("<td>commit</td><td>0123456789abcdef</td>")));
}

class PlotsOnThePage : public testing::Test {
 protected:
  PlotsOnThePage() : records_({record("d", "none", 0, 10, {1})}) {
    csv_ = report_formats().at("csv").make.render({records_, {}, {}});
  }
  void put(const std::string& name, const std::string& inputs, const std::string& content) {
    write_file_atomically(folder_.path() / "plots" / name,
                          "<?xml version=\"1.0\"?>\n<svg data-inputs=\"" + inputs +
                              "\"><title>Errors &amp; bits</title>" + content + "</svg>\n");
  }
  std::string current() const { return plot_inputs(csv_, layers_csv(records_), ""); }
  std::string page() const { return html({records_, {}, {}, load_plots(folder_.path())}); }

  test::TemporaryFolder folder_;
  std::vector<Record> records_;
  std::string csv_;
};

TEST_F(PlotsOnThePage, OnlyThoseOfTheseResults) {
  EXPECT_THAT(page(), HasSubstr("No plots yet: <code>./scripts/report DIR</code>"));
  put("a.svg", current(), "<g id=\"mine\"/>");
  put("b.svg", "0123", "<g id=\"other\"/>");
  EXPECT_THAT(page(), AllOf(HasSubstr("<g id=\"mine\"/>"), Not(HasSubstr("<g id=\"other\"/>")),
                            HasSubstr("<figcaption>Errors &amp; bits</figcaption>"),
                            HasSubstr("Plots of other results"), Not(HasSubstr("<?xml"))));
}

TEST_F(PlotsOnThePage, NoneThatIsMoreThanADrawing) {
  int number = 0;
  for (const char* content :
       {"<script>alert(1)</script>", "<g onload=\"x()\"/>", "<SCRIPT href='#a'/>",
        "<foreignObject/>", "<image href=\"data:x\"/>", "<use href=\"http://x/y#z\"/>",
        "<style>@import 'x';</style>", "<g style=\"fill:url(http://x)\"/>", "<a href=\"#x\"/>",
        "<animate attributeName=\"href\"/>"}) {
    const std::string name = "p" + std::to_string(number++) + ".svg";
    put(name, current(), content);
    EXPECT_THAT(page(), AllOf(Not(HasSubstr(content)), HasSubstr(name + " is not shown")))
        << content;
    std::filesystem::remove(folder_.path() / "plots" / name);
  }
  write_file_atomically(folder_.path() / "plots" / "z.svg", "no drawing");
  EXPECT_THAT(page(), HasSubstr("z.svg is not shown: it is no SVG file"));
}

}  // namespace
}  // namespace gptqb
