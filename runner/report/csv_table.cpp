#include "runner/report/csv_table.h"

#include "runner/report/number_format.h"

namespace gptqb {
namespace {

std::string quoted(const std::string& cell) {
  if (cell.find_first_of(",\"\r\n") == std::string::npos) return cell;
  std::string result(1, '"');
  for (char letter : cell) {
    if (letter == '"') result.push_back('"');
    result.push_back(letter);
  }
  result.push_back('"');
  return result;
}

std::string without_formula(const std::string& text) {
  if (text.empty() || std::string("=+-@\t\r'").find(text[0]) == std::string::npos) return text;
  std::string result(1, '\'');
  result += text;
  return result;
}

// Settings are numbers in text form: "-1" is a group size and no formula.
bool is_number(const std::string& text) {
  return text.find_first_of("0123456789") != std::string::npos &&
         text.find_first_not_of("0123456789+-.eE") == std::string::npos && text[0] != '+';
}

}  // namespace

void CsvTable::add_column(const std::string& name) {
  if (index_.emplace(name, columns_.size()).second) columns_.push_back(name);
}

void CsvTable::add_row() { rows_.emplace_back(); }

void CsvTable::put(const std::string& column, std::string cell) {
  add_column(column);
  rows_.back()[index_.at(column)] = std::move(cell);
}

void CsvTable::set(const std::string& column, const std::string& text) {
  put(column, is_number(text) ? text : without_formula(text));
}

void CsvTable::set(const std::string& column, double value) { put(column, number_text(value)); }

void CsvTable::set(const std::string& column, int64_t value) { put(column, std::to_string(value)); }

void CsvTable::set(const std::string& column, const std::optional<double>& value) {
  put(column, value ? number_text(*value) : "");
}

std::string CsvTable::text() const {
  std::string result;
  const auto end_row = [&] {
    result.pop_back();
    result += "\r\n";
  };
  for (const std::string& column : columns_) result += quoted(without_formula(column)) + ',';
  end_row();
  for (const auto& row : rows_) {
    for (size_t column = 0; column < columns_.size(); ++column) {
      const auto cell = row.find(column);
      if (cell != row.end()) result += quoted(cell->second);
      result.push_back(',');
    }
    end_row();
  }
  return result;
}

}  // namespace gptqb
