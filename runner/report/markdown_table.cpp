#include "runner/report/markdown_table.h"

#include <algorithm>

namespace gptqb {
namespace {

// Code points of UTF-8 text: every byte but continuation bytes.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string space(width - std::min(width, width_of(text)), ' ');
  return right ? space + text : text + space;
}

void add_items(const std::vector<ReportItem>& items, const std::string& indent, std::string& text) {
  for (const ReportItem& item : items) {
    text += indent + "- ";
    if (!item.code.empty()) text += "`" + item.code + "` ";
    text += markdown_escape(item.text) + "\n";
    add_items(item.under, indent + "  ", text);
  }
}

}  // namespace

std::string markdown_escape(const std::string& text) {
  std::string result;
  for (char letter : text) {
    if (letter == '|' || letter == '\\' || letter == '<') result.push_back('\\');
    result.push_back(letter == '\n' || letter == '\r' || letter == '\t' ? ' ' : letter);
  }
  return result;
}

std::string markdown_text(const ReportTable& table) {
  std::string head;
  std::string rule;
  std::vector<std::string> lines(table.rows().size());
  for (size_t column = 0; column < table.columns().size(); ++column) {
    const ReportTable::Column& head_cell = table.columns()[column];
    const bool right = head_cell.right_aligned;
    const std::string title =
        markdown_escape((head_cell.group.empty() ? "" : head_cell.group + " ") + head_cell.title);
    std::vector<std::string> cells;
    for (const auto& row : table.rows()) cells.push_back(markdown_escape(row[column]));
    size_t width = std::max<size_t>(3, width_of(title));
    for (const std::string& cell : cells) width = std::max(width, width_of(cell));
    head += "| " + padded(title, width, right) + " ";
    rule += "| " + std::string(width - 1, '-') + (right ? ": " : "- ");
    for (size_t row = 0; row < cells.size(); ++row)
      lines[row] += "| " + padded(cells[row], width, right) + " ";
  }
  std::string result = head + "|\n" + rule + "|\n";
  for (const std::string& line : lines) result += line + "|\n";
  return result;
}

std::string markdown_text(const Section& section) {
  std::string text;
  const auto add = [&](const std::string& part) {
    if (!text.empty()) text += "\n";
    text += part + "\n";
  };
  if (!section.title.empty()) add("## " + section.title);
  if (!section.intro.empty()) add(section.intro);
  if (!section.table.empty()) {
    if (!text.empty()) text += "\n";
    text += markdown_text(section.table);
  }
  if (!section.items.empty()) {
    if (!text.empty()) text += "\n";
    add_items(section.items, "", text);
  }
  if (!section.note.empty()) add(section.note);
  return text;
}

}  // namespace gptqb
