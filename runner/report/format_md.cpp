// table.md: for each experiment a table a person reads, and below it what its numbers stand on.
#include <algorithm>

#include "runner/report/markdown_sections.h"
#include "runner/report/markdown_table.h"

namespace gptqb {
namespace {

constexpr const char* kLegend =
    "Perplexity ± its standard error. Loss: nats a token, mean difference over the same windows ± "
    "half "
    "its 95 % interval (paired, Student t); a tie is a difference the interval does not tell from "
    "0. "
    "bits/weight: of the linears of all blocks, with scales, zeros and indices, and dense ones at "
    "the model's width; results.csv has that of the whole model too.\n";

std::vector<std::string> experiments_of(const std::vector<Record>& records) {
  std::vector<std::string> result;
  for (const Record& record : records)
    if (std::find(result.begin(), result.end(), record.experiment) == result.end())
      result.push_back(record.experiment);
  return result;
}

void append(const std::string& section, std::string& text) {
  if (!section.empty()) text += "\n" + section;
}

std::string experiment_text(const std::string& experiment, const ReportData& data) {
  RecordPointers rows;
  for (const Record& record : data.records)
    if (record.experiment == experiment) rows.push_back(&record);
  std::vector<Verdict> verdicts;
  for (const Verdict& verdict : data.verdicts)
    if (verdict.experiment == experiment) verdicts.push_back(verdict);
  RecordPointers quantized;
  for (const Record* row : rows)
    if (row->setting("kernels.m").empty()) quantized.push_back(row);
  std::string text = "# " + markdown_escape(experiment) + "\n";
  if (!quantized.empty()) {
    append(main_table(quantized, data.records), text);
    append(kLegend, text);
  }
  append(kernels_table(rows), text);
  append(divergence_table(rows, data.records), text);
  append(verdict_table(verdicts, rows), text);
  append(seeds_table(rows), text);
  append(blocks_table(rows), text);
  append(solvers_table(rows), text);
  append(rules_section(rows), text);
  append(remarks(rows), text);
  append(provenance(rows), text);
  return text;
}

}  // namespace

std::string render_md(const ReportData& data) {
  std::string text;
  for (const std::string& experiment : experiments_of(data.records)) {
    if (!text.empty()) text += "\n";
    text += experiment_text(experiment, data);
  }
  if (data.records.empty()) text += "No records.\n";
  if (!data.damaged.empty()) {
    text += "\n## Damaged record files\n\n";
    for (const std::string& message : data.damaged) text += "- " + markdown_escape(message) + "\n";
  }
  return text;
}

}  // namespace gptqb
