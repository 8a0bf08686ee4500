#include "runner/report/latex_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "common/text.h"
#include "datasets/utf8.h"
#include "runner/verdict.h"

namespace gptqb {
namespace {

std::string escape_ascii(char letter) {
  switch (letter) {
    case '\\':
      return "\\textbackslash{}";
    case '~':
      return "\\textasciitilde{}";
    case '^':
      return "\\textasciicircum{}";
    case '<':
      return "\\textless{}";
    case '>':
      return "\\textgreater{}";
    case '|':
      return "\\textbar{}";
    case '"':
      return "''";
    case '#':
    case '$':
    case '%':
    case '&':
    case '_':
    case '{':
    case '}':
      return std::string("\\") + letter;
    // After the end of a row these would be its arguments; two hyphens would be a dash.
    case '[':
    case ']':
    case '*':
    case '-':
      return std::string("{") + letter + "}";
    default:
      return std::string(1,
                         static_cast<unsigned char>(letter) < ' ' || letter == 127 ? ' ' : letter);
  }
}

std::string escape_other(char32_t letter, std::string_view bytes) {
  static const std::map<char32_t, const char*> kKnown = {
      {0x2013, "--"},   {0x2014, "---"},   {0xB1, "$\\pm$"}, {0xD7, "$\\times$"},   {0x2212, "$-$"},
      {0xB5, "$\\mu$"}, {0x3BC, "$\\mu$"}, {0xA0, "~"},      {0x2248, "$\\approx$"}};
  if (const auto known = kKnown.find(letter); known != kKnown.end()) return known->second;
  // Letters that every font has an accent for; those left out need another encoding of fonts.
  constexpr std::array<char32_t, 5> kLacking = {0xD0, 0xDE, 0xF0, 0xFE, 0xF7};
  if (letter >= 0xC0 && letter <= 0xFF &&
      std::find(kLacking.begin(), kLacking.end(), letter) == kLacking.end())
    return std::string(bytes);
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "\\texttt{U+%04X}", static_cast<unsigned>(letter));
  return text.data();
}

const char* mark_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPass:
      return "$\\surd$";
    case Outcome::kFail:
      return "$\\times$";
    case Outcome::kNotRun:
      return "$\\circ$";
    case Outcome::kNotSupported:
      return "$\\bullet$";
    case Outcome::kNotComparable:
      return "$\\approx$";
  }
  return "";
}

// "5.85 PASS" -> "5.85~$\surd$".
std::string verdict_cell(const std::string& cell) {
  std::vector<std::string> parts;
  for (const JudgedText& part : split_judged(cell))
    parts.push_back(latex_escape(part.text) +
                    (part.outcome ? std::string("~") + mark_of(*part.outcome) : ""));
  return join(parts, "; ");
}

std::string joined_row(const std::vector<std::string>& cells) {
  std::string row;
  for (size_t i = 0; i < cells.size(); ++i) row += (i ? " & " : "") + cells[i];
  return row + " \\\\\n";
}

// The names of groups of columns over their titles, with a rule under each; empty without groups.
std::string group_rows(const ReportTable& table) {
  const auto& columns = table.columns();
  const bool any = std::any_of(columns.begin(), columns.end(),
                               [](const auto& column) { return !column.group.empty(); });
  if (!any) return "";
  std::vector<std::string> cells;
  std::string rules;
  for (size_t first = 0; first < columns.size();) {
    size_t last = first;
    const std::string& group = columns[first].group;
    while (!group.empty() && last + 1 < columns.size() && columns[last + 1].group == group) ++last;
    if (group.empty()) {
      cells.emplace_back();
    } else {
      cells.push_back("\\multicolumn{" + std::to_string(last - first + 1) + "}{c}{" +
                      latex_escape(group) + "}");
      rules += "\\cmidrule(lr){" + std::to_string(first + 1) + "-" + std::to_string(last + 1) + "}";
    }
    first = last + 1;
  }
  return joined_row(cells) + rules + "\n";
}

}  // namespace

const char* const kLatexMarks =
    "$\\surd$ within the tolerance of the published value, $\\times$ outside it, $\\circ$ not run, "
    "$\\bullet$ not supported yet, $\\approx$ not comparable.";

std::string latex_escape(const std::string& text) {
  const std::string valid = replace_invalid_utf8(text);
  std::string result;
  for (size_t at = 0; at < valid.size();) {
    if (static_cast<unsigned char>(valid[at]) < 0x80) {
      result += escape_ascii(valid[at++]);
      continue;
    }
    const Utf8Char letter = decode_utf8(valid, at);
    const auto bytes = static_cast<size_t>(letter.bytes);
    result += escape_other(static_cast<char32_t>(letter.code), valid.substr(at, bytes));
    at += bytes;
  }
  return result;
}

std::string latex_table(const Section& section, const std::string& caption, bool long_table) {
  const ReportTable& table = section.table;
  std::string alignment;
  std::vector<std::string> titles;
  for (const auto& column : table.columns()) {
    alignment += column.right_aligned ? 'r' : 'l';
    titles.push_back(latex_escape(column.title));
  }
  const std::string head = "\\toprule\n" + group_rows(table) + joined_row(titles) + "\\midrule\n";
  std::string body;
  for (size_t row = 0; row < table.rows().size(); ++row) {
    if (table.breaks_before(row)) body += "\\midrule\n";
    std::vector<std::string> cells;
    for (size_t i = 0; i < table.columns().size(); ++i) {
      const std::string& cell = table.rows()[row][i];
      cells.push_back(table.columns()[i].verdict ? verdict_cell(cell) : latex_escape(cell));
    }
    body += joined_row(cells);
  }
  const std::string title = "\\caption{" + latex_escape(caption) + "}";
  if (long_table)
    return "{\\footnotesize\n\\begin{longtable}{" + alignment + "}\n" + title + "\\\\\n" + head +
           "\\endfirsthead\n" + head + "\\endhead\n\\bottomrule\n\\endfoot\n" + body +
           "\\end{longtable}}\n";
  std::string text = "\\begin{table}[htbp]\n\\centering\\small\n" + title + "\n\\begin{tabular}{" +
                     alignment + "}\n" + head + body + "\\bottomrule\n\\end{tabular}\n";
  if (!section.note.empty()) text += "\n\\smallskip\\footnotesize " + section.note + "\n";
  return text + "\\end{table}\n";
}

}  // namespace gptqb
