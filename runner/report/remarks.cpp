#include "runner/report/sections.h"
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

std::string label_of(const Record& record) {
  return record.cell_id + " (" + cell_label(record) + "): ";
}

}  // namespace

Section absent_section(const RecordPointers& rows) {
  std::vector<ReportItem> items;
  for (const Record* row : rows)
    if (row->status != CellStatus::kOk)
      items.push_back({"", label_of(*row) + status_name(row->status) + ": " + row->reason});
  return {"absent", "Cells without a result", "", {}, std::move(items), ""};
}

Section notes_section(const RecordPointers& rows) {
  std::vector<ReportItem> items;
  for (const Record* row : rows) {
    const auto add = [&](const std::string& text) { items.push_back({"", label_of(*row) + text}); };
    for (const std::string& note : row->notes) add(note);
    for (const Metric& metric : row->metrics) {
      if (!metric.reason.empty()) add(metric.name + ": " + metric.reason);
      // What decode_latency notes, its own table says.
      if (!metric.note.empty() && !metric.name.starts_with("decode."))
        add(metric.name + ": " + metric.note);
    }
    if (const std::string layers = named_layers(*row); !layers.empty()) add(layers);
  }
  return {"notes", "Notes", "", {}, std::move(items), ""};
}

}  // namespace gptqb
