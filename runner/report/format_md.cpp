// table.md: for each experiment a table a person reads, and below it what its numbers stand on.
#include "runner/report/markdown_table.h"
#include "runner/report/sections.h"

namespace gptqb {

std::string render_md(const ReportData& data) {
  std::string text;
  for (const ExperimentReport& experiment : experiment_reports(data)) {
    if (!text.empty()) text += "\n";
    text += "# " + markdown_escape(experiment.name) + "\n";
    for (const Section& section : experiment.sections) text += "\n" + markdown_text(section);
  }
  if (data.records.empty()) text += "No records.\n";
  if (!data.damaged.empty()) {
    text += "\n## Damaged record files\n\n";
    for (const std::string& message : data.damaged) text += "- " + markdown_escape(message) + "\n";
  }
  return text;
}

}  // namespace gptqb
