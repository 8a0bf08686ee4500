#include "runner/report/markdown_sections.h"
#include "runner/report/markdown_table.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

std::string named_layers(const Record& record) {
  constexpr size_t kShown = 5;
  const std::vector<std::string> layers = fallback_layers(record);
  if (layers.empty()) return "";
  std::string result("layers that fell back: ");
  for (size_t i = 0; i < layers.size() && i < kShown; ++i) result += (i ? ", " : "") + layers[i];
  if (layers.size() > kShown)
    result += " and " + std::to_string(layers.size() - kShown) + " more (layers.csv)";
  return result;
}

}  // namespace

std::string remarks(const RecordPointers& rows) {
  std::string absent;
  std::string notes;
  for (const Record* row : rows) {
    const std::string start =
        "- " + row->cell_id + " (" + markdown_escape(cell_label(*row)) + "): ";
    if (row->status != CellStatus::kOk)
      absent += start + status_name(row->status) + ": " + markdown_escape(row->reason) + "\n";
    for (const std::string& note : row->notes) notes += start + markdown_escape(note) + "\n";
    for (const Metric& metric : row->metrics) {
      if (!metric.reason.empty())
        notes += start + metric.name + ": " + markdown_escape(metric.reason) + "\n";
      if (!metric.note.empty())
        notes += start + metric.name + ": " + markdown_escape(metric.note) + "\n";
    }
    const std::string layers = named_layers(*row);
    if (!layers.empty()) notes += start + markdown_escape(layers) + "\n";
  }
  std::string result;
  if (!absent.empty()) result += "## Cells without a result\n\n" + absent;
  if (!absent.empty() && !notes.empty()) result += "\n";
  if (!notes.empty()) result += "## Notes\n\n" + notes;
  return result;
}

}  // namespace gptqb
