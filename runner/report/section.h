// What a report says, apart from how a format writes it down: pieces with a heading, each with a
// table or a list. All text is plain; a format escapes it. In `intro` and `note`, which are the
// program's own sentences, `x` is code.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace gptqb {

class ReportTable {
 public:
  struct Column {
    std::string title;
    bool right_aligned;   // numbers
    bool verdict;         // cells begin or end with the name of an outcome (runner/verdict.h)
    std::string group{};  // columns side by side with one group stand under it
  };

  void add_column(const std::string& title, bool right_aligned = false) {
    columns_.push_back({title, right_aligned, false});
  }
  void add_column(const Column& column) { columns_.push_back(column); }
  // As many cells as columns.
  void add_row(std::vector<std::string> cells) {
    cells.resize(columns_.size());
    rows_.push_back(std::move(cells));
  }
  // The next row begins another group of rows: formats for print draw a line above it.
  void add_break() { breaks_.insert(rows_.size()); }
  bool empty() const { return rows_.empty(); }
  bool breaks_before(size_t row) const { return breaks_.contains(row); }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<std::string>>& rows() const { return rows_; }

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::set<size_t> breaks_;
};

// A line of a list: `code` first, if there is any, then `text`.
struct ReportItem {
  std::string code;
  std::string text;
  std::vector<ReportItem> under{};
};

struct Section {
  std::string id;     // the same in every format: "verdicts"
  std::string title;  // empty: it stands under the experiment's name
  std::string intro;  // above the table
  ReportTable table;
  std::vector<ReportItem> items;
  std::string note;  // below

  bool empty() const { return table.empty() && items.empty(); }
};

}  // namespace gptqb
