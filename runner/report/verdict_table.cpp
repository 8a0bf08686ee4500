#include <algorithm>

#include "runner/report/number_format.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

// The verdict, and its reason where the other columns do not show it.
std::string outcome_text(const Verdict& verdict) {
  std::string name = outcome_name(verdict.outcome);
  const bool shown = verdict.outcome == Outcome::kPass ||
                     (verdict.outcome == Outcome::kFail && verdict.measured.has_value());
  if (shown || verdict.reason.empty()) return name;
  // Reasons of skipped cells begin with the verdict's own words.
  if (verdict.reason.rfind(name, 0) == 0) return verdict.reason;
  return name + ": " + verdict.reason;
}

std::string or_dash(const std::string& text) { return text.empty() ? "–" : text; }

}  // namespace

Section verdict_section(const std::vector<Verdict>& verdicts, const RecordPointers& rows) {
  if (verdicts.empty()) return {};
  const std::vector<std::string> settings = varying_beside_label(rows);
  const ShownSettings texts(rows);
  ReportTable table;
  table.add_column("cell");
  for (const std::string& setting : settings) table.add_column(setting);
  table.add_column("metric");
  table.add_column("expected", true);
  table.add_column("measured", true);
  table.add_column("deviation", true);
  table.add_column(ReportTable::Column{"verdict", false, true});
  table.add_column("source");
  for (const Verdict& verdict : verdicts) {
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const Record* each) {
      return each->cell_id == verdict.cell_id;
    });
    std::vector<std::string> cells = {row == rows.end() ? verdict.where : cell_label(**row)};
    for (const std::string& setting : settings)
      cells.push_back(row == rows.end() ? "–" : or_dash(texts.of(**row, setting)));
    cells.insert(cells.end(),
                 {verdict.metric, verdict.expected,
                  verdict.measured ? significant_text(*verdict.measured, 5) : "–",
                  or_dash(verdict.deviation_text), outcome_text(verdict), verdict.source});
    table.add_row(std::move(cells));
  }
  return {"verdicts", "Verdicts", "", std::move(table), {}, ""};
}

}  // namespace gptqb
