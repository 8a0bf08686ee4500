// A Markdown table whose source is readable too: columns are padded to one width, numbers to the
// right.
#pragma once

#include <string>
#include <vector>

namespace gptqb {

class MarkdownTable {
 public:
  void add_column(const std::string& title, bool right_aligned = false);
  // As many cells as columns.
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string text() const;

 private:
  struct Column {
    std::string title;
    bool right_aligned;
  };
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Text that stays one cell and shows as it is: | < and backslash are escaped, line breaks become
// spaces.
std::string markdown_escape(const std::string& text);

}  // namespace gptqb
