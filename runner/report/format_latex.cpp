// table.tex: the tables of a paper, to be read by \input. Cells without a result are named below
// their table.
#include <algorithm>

#include "runner/report/latex_text.h"
#include "runner/report/sections.h"

namespace gptqb {
namespace {

constexpr const char* kHead =
    "% Made by gptq-bench from records. Read it with \\input; it needs\n"
    "%   \\usepackage{booktabs}\n"
    "%   \\usepackage{longtable}\n";

// The rest of a line of comment.
std::string one_line(const std::string& text) {
  std::string result = text;
  std::replace_if(
      result.begin(), result.end(),
      [](char letter) { return static_cast<unsigned char>(letter) < ' ' || letter == 127; }, ' ');
  return result;
}

bool has_verdicts(const Section& section) {
  const auto& columns = section.table.columns();
  return std::any_of(columns.begin(), columns.end(),
                     [](const auto& column) { return column.verdict; });
}

std::string absent_text(const RecordPointers& rows) {
  std::string text;
  for (const ReportItem& item : absent_section(rows).items)
    text += "\\item " + latex_escape(item.text) + "\n";
  if (text.empty()) return "";
  return "\\noindent Cells without a result:\n\\begin{itemize}\n" + text + "\\end{itemize}\n";
}

}  // namespace

std::string render_latex(const ReportData& data) {
  std::string text = kHead;
  if (data.records.empty()) text += "% No records.\n";
  for (const std::string& message : data.damaged)
    text += "% Damaged record file: " + one_line(message) + "\n";
  for (const ExperimentReport& experiment : experiment_reports(data)) {
    text += "\n% " + one_line(experiment.name) + "\n";
    for (Section& section : paper_sections(experiment.quantized(), experiment.verdicts)) {
      if (section.table.empty()) continue;
      if (has_verdicts(section)) section.note = kLatexMarks;
      text += latex_table(section, section.title + " (" + experiment.name + ")", false);
    }
    for (const Section& section : kernel_sections(experiment.rows))
      if (!section.table.empty())
        text += latex_table(section, section.title + " (" + experiment.name + ")", true);
    text += absent_text(experiment.rows);
  }
  return text;
}

}  // namespace gptqb
