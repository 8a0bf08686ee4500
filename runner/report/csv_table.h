// A CSV file in the making, by RFC 4180: comma, CRLF, quotes around cells that need them, a quote
// doubled.
//
// Missing values are empty cells; numbers that are not finite are nan, inf, -inf. Text that a
// spreadsheet would take for a formula (it begins with = + - @ or a tab) gets an apostrophe before
// it; so does text that begins with an apostrophe, so that a reader can take one away. Numbers are
// written as they are.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gptqb {

class CsvTable {
 public:
  // Columns stand in the order in which they were first added; adding one again does nothing.
  void add_column(const std::string& name);
  void add_row();
  // In the last row; the column is added if it is new, and empty in all rows that do not set it.
  void set(const std::string& column, const std::string& text);
  void set(const std::string& column, double value);
  void set(const std::string& column, int64_t value);
  void set(const std::string& column, const std::optional<double>& value);
  void set(const std::string& column, const char* text) { set(column, std::string(text)); }

  std::string text() const;

 private:
  void put(const std::string& column, std::string cell);

  std::vector<std::string> columns_;
  std::map<std::string, size_t> index_;
  std::vector<std::map<size_t, std::string>> rows_;
};

}  // namespace gptqb
