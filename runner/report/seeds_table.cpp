#include <map>

#include "common/statistics.h"
#include "runner/report/number_format.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

// Everything but the seed, as one text.
std::string settings_without_seed(const Record& record) {
  std::string result;
  for (const auto& [key, text] : record.settings)
    if (key != "calibration.seed") result += key + "=" + text + "\n";
  return result;
}

}  // namespace

Section seeds_section(const RecordPointers& rows) {
  std::map<std::string, RecordPointers> groups;
  std::vector<std::string> order;
  for (const Record* row : rows) {
    if (row->status != CellStatus::kOk) continue;
    const std::string key = settings_without_seed(*row);
    if (!groups.contains(key)) order.push_back(key);
    groups[key].push_back(row);
  }
  std::vector<std::string> settings = varying_beside_label(rows);
  const ShownSettings texts(rows);
  std::erase(settings, "calibration.seed");
  ReportTable table;
  table.add_column("cell");
  for (const std::string& setting : settings) table.add_column(setting);
  table.add_column("metric");
  table.add_column("mean", true);
  table.add_column("deviation", true);
  table.add_column("seeds", true);
  for (const std::string& key : order) {
    const RecordPointers& group = groups.at(key);
    if (group.size() < 2) continue;
    for (const Metric& metric : group.front()->metrics) {
      if (metric.name.rfind("perplexity.", 0) != 0 && !metric.name.ends_with(".mean_kl")) continue;
      std::vector<double> values;
      for (const Record* row : group)
        if (const auto found = find_metric(*row, metric.name)) values.push_back(found->value);
      const MeanEstimate estimate = estimate_mean(values);
      std::vector<std::string> cells = {cell_label(*group.front())};
      for (const std::string& setting : settings)
        cells.push_back(or_nothing(texts.of(*group.front(), setting)));
      cells.push_back(metric.name);
      cells.push_back(significant_text(estimate.mean, 5));
      cells.push_back(estimate.deviation ? significant_text(*estimate.deviation, 2) : "–");
      cells.push_back(std::to_string(estimate.count));
      table.add_row(std::move(cells));
    }
  }
  return {"seeds", "Over calibration seeds", "", std::move(table), {}, ""};
}

}  // namespace gptqb
