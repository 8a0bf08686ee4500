#include "runner/report/markdown_sections.h"
#include "runner/report/markdown_table.h"
#include "runner/report/number_format.h"

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

}  // namespace

std::string verdict_table(const std::vector<Verdict>& verdicts) {
  if (verdicts.empty()) return "";
  MarkdownTable table;
  table.add_column("cell");
  table.add_column("metric");
  table.add_column("expected", true);
  table.add_column("measured", true);
  table.add_column("deviation", true);
  table.add_column("verdict");
  table.add_column("source");
  for (const Verdict& verdict : verdicts) {
    table.add_row({verdict.where, verdict.metric, verdict.expected,
                   verdict.measured ? significant_text(*verdict.measured, 5) : "–",
                   verdict.deviation_text.empty() ? "–" : verdict.deviation_text,
                   outcome_text(verdict), verdict.source});
  }
  return "## Verdicts\n\n" + table.text();
}

}  // namespace gptqb
