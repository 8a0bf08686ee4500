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

}  // namespace

std::string markdown_escape(const std::string& text) {
  std::string result;
  for (char letter : text) {
    if (letter == '|' || letter == '\\' || letter == '<') result.push_back('\\');
    result.push_back(letter == '\n' || letter == '\r' || letter == '\t' ? ' ' : letter);
  }
  return result;
}

void MarkdownTable::add_column(const std::string& title, bool right_aligned) {
  columns_.push_back({markdown_escape(title), right_aligned});
}

void MarkdownTable::add_row(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = markdown_escape(cell);
  rows_.push_back(std::move(cells));
}

std::string MarkdownTable::text() const {
  std::string head;
  std::string rule;
  std::vector<std::string> lines(rows_.size());
  for (size_t column = 0; column < columns_.size(); ++column) {
    const bool right = columns_[column].right_aligned;
    size_t width = std::max<size_t>(3, width_of(columns_[column].title));
    for (const auto& row : rows_) width = std::max(width, width_of(row[column]));
    head += "| " + padded(columns_[column].title, width, right) + " ";
    rule += "| " + std::string(width - 1, '-') + (right ? ": " : "- ");
    for (size_t row = 0; row < rows_.size(); ++row)
      lines[row] += "| " + padded(rows_[row][column], width, right) + " ";
  }
  std::string result = head + "|\n" + rule + "|\n";
  for (const std::string& line : lines) result += line + "|\n";
  return result;
}

}  // namespace gptqb
