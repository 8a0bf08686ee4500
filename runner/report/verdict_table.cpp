#include "runner/report/markdown_sections.h"
#include "runner/report/markdown_table.h"
#include "runner/report/number_format.h"

namespace gptqb {

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
    std::string outcome = outcome_name(verdict.outcome);
    if (verdict.outcome != Outcome::kPass && verdict.outcome != Outcome::kFail)
      outcome += ": " + verdict.reason;
    if (verdict.outcome == Outcome::kFail && !verdict.measured) outcome += ": " + verdict.reason;
    table.add_row({verdict.where, verdict.metric, verdict.expected,
                   verdict.measured ? significant_text(*verdict.measured, 5) : "–",
                   verdict.deviation_text.empty() ? "–" : verdict.deviation_text, outcome,
                   verdict.source});
  }
  return "## Verdicts\n\n" + table.text();
}

}  // namespace gptqb
