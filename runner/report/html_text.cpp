#include "runner/report/html_text.h"

#include <algorithm>

#include "common/text.h"
#include "datasets/utf8.h"

namespace gptqb {
namespace {

struct Mark {
  const char* css;
  const char* sign;
};

Mark mark_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPass:
      return {"pass", "✓"};
    case Outcome::kFail:
      return {"fail", "✗"};
    case Outcome::kNotRun:
    case Outcome::kNotSupported:
      return {"absent", "○"};
    case Outcome::kNotComparable:
      return {"other", "≈"};
  }
  return {"other", ""};
}

std::string muted(const std::string& text) {
  return "<span class=\"muted\">" + html_escape(text) + "</span>";
}

// "5.85 ± 0.02" with the error in a fainter tone; what is no number as a whole.
std::string number_cell(const std::string& cell) {
  if (cell == "–" || cell.starts_with("tie (") || cell.starts_with("(")) return muted(cell);
  const size_t error = cell.find(" ± ");
  if (error == std::string::npos) return html_escape(cell);
  return html_escape(cell.substr(0, error)) + muted(cell.substr(error));
}

// Outcomes begin or end a cell: "PASS", "not run: no weights", "5.85 PASS; 5.9 FAIL".
std::string verdict_cell(const std::string& cell) {
  for (const Outcome outcome : kOutcomes) {
    const std::string name = outcome_name(outcome);
    if (cell.starts_with(name))
      return html_verdict(outcome) + html_escape(cell.substr(name.size()));
  }
  std::vector<std::string> parts;
  for (const JudgedText& part : split_judged(cell))
    parts.push_back(part.outcome ? html_escape(part.text) + " " + html_verdict(*part.outcome)
                                 : number_cell(part.text));
  return join(parts, "; ");
}

// The program's own sentence, in which `x` is code.
std::string sentence(const std::string& text) {
  std::string result;
  bool code = false;
  for (const char letter : html_escape(text)) {
    if (letter != '`') {
      result.push_back(letter);
      continue;
    }
    result += code ? "</code>" : "<code>";
    code = !code;
  }
  return result + (code ? "</code>" : "");
}

std::string list_of(const std::vector<ReportItem>& items) {
  std::string text = "<ul>\n";
  for (const ReportItem& item : items) {
    text += "<li>";
    if (!item.code.empty()) text += "<code>" + html_escape(item.code) + "</code> ";
    text += html_escape(item.text);
    if (!item.under.empty()) text += "\n" + list_of(item.under);
    text += "</li>\n";
  }
  return text + "</ul>\n";
}

std::string class_of(const ReportTable::Column& column) {
  return column.right_aligned ? " class=\"n\"" : "";
}

// One row of titles, or two where columns stand in groups.
std::string head_of(const ReportTable& table) {
  const auto& columns = table.columns();
  const bool grouped = std::any_of(columns.begin(), columns.end(),
                                   [](const auto& column) { return !column.group.empty(); });
  std::string top = "<tr>";
  std::string below = "<tr>";
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto& column = columns[i];
    const std::string title =
        " scope=\"col\"" + class_of(column) + ">" + html_escape(column.title) + "</th>";
    if (column.group.empty()) {
      top += (grouped ? "<th rowspan=\"2\"" : "<th") + title;
      continue;
    }
    if (i == 0 || columns[i - 1].group != column.group) {
      size_t count = 1;
      while (i + count < columns.size() && columns[i + count].group == column.group) ++count;
      top += "<th scope=\"colgroup\" class=\"group\" colspan=\"" + std::to_string(count) + "\">" +
             html_escape(column.group) + "</th>";
    }
    below += "<th" + title;
  }
  return "<thead>\n" + top + "</tr>\n" + (grouped ? below + "</tr>\n" : "") + "</thead>\n";
}

}  // namespace

std::string html_escape(const std::string& text) {
  std::string result;
  for (const char letter : replace_invalid_utf8(text)) {
    switch (letter) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        const auto code = static_cast<unsigned char>(letter);
        result.push_back(code < ' ' || code == 127 ? ' ' : letter);
    }
  }
  return result;
}

std::string html_verdict(Outcome outcome) {
  const Mark mark = mark_of(outcome);
  return std::string("<span class=\"v ") + mark.css + "\">" + mark.sign + " " +
         outcome_name(outcome) + "</span>";
}

std::string html_table(const ReportTable& table, const std::string& label) {
  std::string text = "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" +
                     html_escape(label) + "\">\n<table class=\"sortable\">\n" + head_of(table) +
                     "<tbody>\n";
  for (size_t row = 0; row < table.rows().size(); ++row) {
    text += table.breaks_before(row) ? "<tr class=\"break\">" : "<tr>";
    for (size_t i = 0; i < table.columns().size(); ++i) {
      const auto& column = table.columns()[i];
      const std::string& cell = table.rows()[row][i];
      text += "<td" + class_of(column) + ">" +
              (column.verdict         ? verdict_cell(cell)
               : column.right_aligned ? number_cell(cell)
                                      : html_escape(cell)) +
              "</td>";
    }
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n</div>\n";
}

std::string html_section(const Section& section, const std::string& id) {
  std::string text = "<section id=\"" + html_escape(id) + "\">\n";
  if (!section.title.empty()) text += "<h3>" + html_escape(section.title) + "</h3>\n";
  if (!section.intro.empty()) text += "<p>" + sentence(section.intro) + "</p>\n";
  if (!section.table.empty())
    text += html_table(section.table, section.title.empty() ? "Results" : section.title);
  if (!section.items.empty()) text += list_of(section.items);
  if (!section.note.empty()) text += "<p class=\"note\">" + sentence(section.note) + "</p>\n";
  return text + "</section>\n";
}

}  // namespace gptqb
