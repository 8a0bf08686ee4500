#include "runner/report/sections.h"

#include <algorithm>
#include <iterator>

namespace gptqb {
namespace {

bool has_published_values(const RecordPointers& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Record* row) {
    return std::any_of(row->expectations.begin(), row->expectations.end(), is_published_value);
  });
}

}  // namespace

RecordPointers ExperimentReport::quantized() const {
  RecordPointers result;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(result),
               [](const Record* row) { return row->setting("kernels.m").empty(); });
  return result;
}

std::vector<ExperimentReport> experiment_reports(const ReportData& data) {
  std::vector<ExperimentReport> reports;
  const auto report_of = [&](const std::string& name) {
    return std::find_if(reports.begin(), reports.end(),
                        [&](const ExperimentReport& report) { return report.name == name; });
  };
  for (const Record& record : data.records) {
    auto report = report_of(record.experiment);
    if (report == reports.end())
      report = reports.insert(reports.end(), {record.experiment, {}, {}, {}});
    report->rows.push_back(&record);
  }
  for (const Verdict& verdict : data.verdicts)
    if (const auto report = report_of(verdict.experiment); report != reports.end())
      report->verdicts.push_back(verdict);
  for (ExperimentReport& report : reports) {
    const RecordPointers& rows = report.rows;
    const RecordPointers quantized = report.quantized();
    std::vector<Section>& sections = report.sections;
    sections.push_back(main_section(quantized, data.records));
    if (has_published_values(rows))
      for (Section& section : paper_sections(quantized, report.verdicts))
        sections.push_back(std::move(section));
    for (Section& section : kernel_sections(rows)) sections.push_back(std::move(section));
    sections.push_back(decode_section(quantized));
    sections.push_back(divergence_section(rows, data.records));
    sections.push_back(verdict_section(report.verdicts, rows));
    for (Section& section : claim_sections(rows)) sections.push_back(std::move(section));
    sections.push_back(seeds_section(rows));
    sections.push_back(blocks_section(rows));
    sections.push_back(solvers_section(rows));
    sections.push_back(rules_section(rows));
    sections.push_back(absent_section(rows));
    sections.push_back(notes_section(rows));
    sections.push_back(provenance_section(rows));
    std::erase_if(sections, [](const Section& section) { return section.empty(); });
  }
  return reports;
}

}  // namespace gptqb
