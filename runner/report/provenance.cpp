#include <algorithm>

#include "common/text.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

// Lines without repetition, in order.
class Lines {
 public:
  void add(const std::string& line) {
    if (std::find(lines_.begin(), lines_.end(), line) == lines_.end()) lines_.push_back(line);
  }
  std::vector<ReportItem> items() const {
    std::vector<ReportItem> result;
    for (const std::string& line : lines_) result.push_back({"", line});
    return result;
  }

 private:
  std::vector<std::string> lines_;
};

std::string windows_line(const WindowsRecord& windows) {
  const std::string label = windows.dataset.empty() ? windows.name : windows.dataset;
  return windows.role + ": " + label + ", " + std::to_string(windows.count) + " windows of " +
         std::to_string(windows.seqlen) + " tokens, from " + std::to_string(windows.documents) +
         " documents with " + std::to_string(windows.stream_tokens) + " tokens (" +
         std::to_string(windows.dropped_tokens) + " left over), ids sha256 " +
         windows.ids_sha256.substr(0, 12);
}

std::string program_line(const Environment& environment) {
  std::string version = version_line(environment.build);
  return "program: " + version + ", " + environment.os;
}

}  // namespace

Section provenance_section(const RecordPointers& rows) {
  Lines lines;
  std::vector<std::string> shared;
  for (const auto& [key, text] : shared_settings(rows)) {
    std::string setting = key;
    setting += " = ";
    setting += text.empty() ? "(empty)" : text;
    shared.push_back(setting);
  }
  if (!shared.empty()) lines.add("all cells that have the key: " + join(shared, ", "));
  for (const Record* row : rows)
    for (const WindowsRecord& windows : row->inputs.windows)
      if (windows.role == "calibration") lines.add(windows_line(windows));
  for (const Record* row : rows)
    for (const WindowsRecord& windows : row->inputs.windows)
      if (windows.role == "evaluation") lines.add(windows_line(windows));
  for (const Record* row : rows) {
    if (row->status == CellStatus::kSkipped) continue;
    lines.add("device: " + device_line(row->environment));
    lines.add(program_line(row->environment));
  }
  return {"provenance", "What the numbers stand on", "", {}, lines.items(), ""};
}

}  // namespace gptqb
