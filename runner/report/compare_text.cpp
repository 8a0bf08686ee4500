#include "runner/report/compare.h"
#include "runner/report/markdown_table.h"

namespace gptqb {
namespace {

// Regressions first.
constexpr Change kOrder[] = {Change::kWorse,   Change::kSlower,        Change::kMissing,
                             Change::kUnclear, Change::kNotComparable, Change::kBetter,
                             Change::kFaster,  Change::kNew,           Change::kSame};

std::string environment_text(const Comparison& comparison) {
  if (comparison.environment.empty()) return "Same environment: " + comparison.after + "\n";
  MarkdownTable table;
  for (const char* title : {"what changed around the numbers", "before", "now"})
    table.add_column(title);
  for (const EnvironmentChange& change : comparison.environment)
    table.add_row({change.what, change.before, change.after});
  return table.text();
}

std::string counted(int64_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

std::string summary(const Comparison& comparison) {
  std::string text = comparison.tripped() ? "The gate TRIPPED: " : "The gate holds: ";
  text += counted(comparison.cells, "cell") + " in both";
  if (comparison.cells > 0)
    text += " (" + counted(comparison.old_runs, "run") + " before, " +
            std::to_string(comparison.new_runs) + " now)";
  for (const Change change : kOrder)
    if (const int64_t count = comparison.count(change); count > 0)
      text += ", " + std::to_string(count) + " " + change_name(change);
  return text + "\n";
}

}  // namespace

std::string comparison_text(const Comparison& comparison, bool all) {
  MarkdownTable table;
  for (const char* title :
       {"cell", "settings", "metric", "before", "now", "change", "how it was judged"})
    table.add_column(title);
  for (const Change wanted : kOrder) {
    if (wanted == Change::kSame && !all) continue;
    for (const MetricChange& change : comparison.changes)
      if (change.change == wanted)
        table.add_row({change.cell_id, change.label, change.metric, change.before, change.after,
                       change_name(change.change), change.detail});
  }
  std::string text = environment_text(comparison) + "\n" + summary(comparison);
  if (!table.empty()) text += "\n" + table.text();
  return text;
}

}  // namespace gptqb
