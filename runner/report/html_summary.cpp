#include "runner/report/html_summary.h"

#include <algorithm>

#include "runner/report/html_text.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

std::string count_chip(const std::string& css, const std::string& sign, int64_t count,
                       const std::string& word) {
  return "<li class=\"v " + css + "\"><b>" + sign + " " + std::to_string(count) + "</b> " +
         html_escape(word) + "</li>\n";
}

std::string line(const std::string& css, const std::string& sign, const std::string& word,
                 const std::string& what, const std::string& why) {
  return "<li><span class=\"v " + css + "\">" + sign + " " + html_escape(word) + "</span> <b>" +
         html_escape(what) + "</b>: " + html_escape(why) + "</li>\n";
}

std::string list_or_nothing(const std::string& lines) {
  return lines.empty() ? "" : "<ul class=\"problems\">\n" + lines + "</ul>\n";
}

}  // namespace

std::string html_counts(const ReportData& data) {
  std::string cells;
  const auto count_cells = [&](CellStatus status, const char* css, const char* sign,
                               const char* word) {
    const auto count = std::count_if(data.records.begin(), data.records.end(),
                                     [&](const Record& record) { return record.status == status; });
    if (count > 0)
      cells += count_chip(css, sign, count, (count == 1 ? "cell " : "cells ") + std::string(word));
  };
  count_cells(CellStatus::kOk, "pass", "✓", "ok");
  count_cells(CellStatus::kFailed, "fail", "✗", "failed");
  count_cells(CellStatus::kSkipped, "absent", "○", "not run");
  if (const auto count = static_cast<int64_t>(data.damaged.size()); count > 0)
    cells += count_chip("fail", "✗", count, count == 1 ? "damaged record" : "damaged records");
  for (const Outcome outcome : kOutcomes) {
    const auto count =
        std::count_if(data.verdicts.begin(), data.verdicts.end(),
                      [&](const Verdict& verdict) { return verdict.outcome == outcome; });
    if (count > 0)
      cells += "<li><b>" + std::to_string(count) + "</b> " +
               (count == 1 ? "verdict " : "verdicts ") + html_verdict(outcome) + "</li>\n";
  }
  return cells.empty() ? "<p>No records.</p>\n" : "<ul class=\"counts\">\n" + cells + "</ul>\n";
}

std::string html_problems(const ReportData& data,
                          const std::vector<ExperimentReport>& experiments) {
  std::string bad;
  std::string absent;
  for (const std::string& message : data.damaged)
    bad += line("fail", "✗", "damaged", "a record file could not be read", message);
  for (const ExperimentReport& experiment : experiments) {
    const std::vector<std::string> settings = varying_beside_label(experiment.rows);
    const ShownSettings texts(experiment.rows);
    for (const Record* row : experiment.rows) {
      const std::string words = cell_words(*row, settings, texts);
      if (row->status == CellStatus::kFailed)
        bad += line("fail", "✗", "failed", words, row->reason);
      if (row->status == CellStatus::kSkipped)
        absent += line("absent", "○", "not run", words, row->reason);
    }
    for (const Verdict& verdict : experiment.verdicts) {
      if (verdict.outcome != Outcome::kFail) continue;
      const auto row =
          std::find_if(experiment.rows.begin(), experiment.rows.end(),
                       [&](const Record* each) { return each->cell_id == verdict.cell_id; });
      const std::string cell =
          row == experiment.rows.end() ? verdict.where : cell_words(**row, settings, texts);
      bad += line("fail", "✗", outcome_name(verdict.outcome), cell + ", " + verdict.metric,
                  "expected " + verdict.expected + "; " + verdict.reason);
    }
  }
  const bool any = !bad.empty() || !absent.empty();
  std::string text = "<section id=\"problems\" class=\"" +
                     std::string(!bad.empty()      ? "box bad"
                                 : !absent.empty() ? "box some"
                                                   : "box good") +
                     "\">\n<h2>" + (any ? "Failures and cells not run" : "Nothing failed") +
                     "</h2>\n";
  if (!any) text += "<p>Every cell ran, no verdict is FAIL.</p>\n";
  return text + list_or_nothing(bad) + list_or_nothing(absent) + "</section>\n";
}

}  // namespace gptqb
