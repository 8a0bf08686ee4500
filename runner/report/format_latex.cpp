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

std::string absent_text(const Section& absent) {
  std::string text;
  for (const ReportItem& item : absent.items) text += "\\item " + latex_escape(item.text) + "\n";
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
    for (const Section& section : experiment.sections) {
      if (section.id == "kernels" || section.id == "crossover")
        text += latex_table(section, section.title + " (" + experiment.name + ")", true);
      if (section.id == "absent") text += absent_text(section);
    }
  }
  return text;
}

}  // namespace gptqb
