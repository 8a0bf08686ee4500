#include <algorithm>
#include <cmath>

#include "common/text.h"
#include "runner/report/baseline.h"
#include "runner/report/number_format.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

constexpr const char* kLegend =
    "Perplexity ± its standard error. Loss: nats a token, mean difference over the same windows ± "
    "half its 95 % interval (paired, Student t); a tie is a difference the interval does not tell "
    "from 0. bits/weight: of the linears of all blocks, with scales, zeros and indices, and dense "
    "ones at the model's width; results.csv has that of the whole model too.";

std::string perplexity_text(const std::optional<Metric>& metric) {
  if (!metric) return kNothing;
  std::string text =
      metric->value < 1000 ? fixed_text(metric->value, 3) : significant_text(metric->value, 5);
  if (metric->standard_error) text += " ± " + significant_text(*metric->standard_error, 2);
  return text;
}

std::string difference_text(const Record& record, const Record* baseline,
                            const std::string& dataset) {
  if (baseline == &record || (baseline && baseline->cell_id == record.cell_id)) return "(baseline)";
  const auto difference = loss_difference(record, baseline, dataset);
  return difference ? paired_text(*difference) : kNothing;
}

std::string windows_text(const Record& record, const std::string& dataset) {
  const WindowsRecord* windows = evaluation_windows_of(record, dataset);
  if (!windows) return kNothing;
  return std::to_string(windows->count) + " x " + std::to_string(windows->seqlen);
}

std::string calibration_text(const Record& record) {
  std::vector<std::string> parts;
  for (const WindowsRecord& windows : record.inputs.windows)
    if (windows.role == "calibration")
      parts.push_back(windows.dataset + " " + std::to_string(windows.count) + " x " +
                      std::to_string(windows.seqlen));
  return or_nothing(join(parts, " + "));
}

std::string bits_per_weight_text(const Record& record) {
  const auto metric = find_metric(record, "bits_per_weight.linear");
  return metric ? fixed_text(metric->value, 3) : kNothing;
}

std::string seconds_text(const Record& record) {
  const auto metric = find_metric(record, "seconds.quantize");
  return metric ? significant_text(metric->value, 3) : kNothing;
}

std::string marks_text(const Record& record) {
  std::string marks;
  const auto add = [&](const std::string& mark) {
    if (!marks.empty()) marks += "; ";
    marks += mark;
  };
  if (record.status != CellStatus::kOk)
    add(std::string(status_name(record.status)) + ", see below");
  if (is_synthetic(record)) add("synthetic weights");
  if (std::any_of(record.layers.begin(), record.layers.end(),
                  [](const LayerHealth& layer) { return layer.rows_solved.has_value(); }))
    add(record.setting("method.rows") + " rows a linear");
  if (const std::string layers = record.setting("method.layers"); !layers.empty())
    add("only layers " + layers);
  const size_t fallbacks = fallback_layers(record).size();
  if (fallbacks > 0) add("fallback in " + std::to_string(fallbacks) + " layers");
  for (const Metric& metric : record.metrics)
    if (!std::isfinite(metric.value)) add(metric.name + " is not finite");
  const auto count_layers = [&](auto has) {
    return std::count_if(record.layers.begin(), record.layers.end(), has);
  };
  const auto raised =
      count_layers([](const LayerHealth& layer) { return layer.damping_tries > 1; });
  if (raised > 0) add("damping raised in " + std::to_string(raised) + " layers");
  const auto dead = count_layers([](const LayerHealth& layer) { return layer.dead_columns > 0; });
  if (dead > 0) add("dead columns in " + std::to_string(dead) + " layers");
  const size_t worse = layers_worse_than_rtn(record).size();
  if (worse > 0) add("worse than RTN in " + std::to_string(worse) + " layers");
  if (record.resumed_blocks > 0) add("resumed");
  if (!record.notes.empty()) add("note");
  return marks;
}

// A cell that rounds activations too, all of it or by a rule, must not look like one that rounds
// only weights.
std::string bits_text(const Record& record) {
  const bool own = record.setting("method.name") == "llm_int8";
  const bool rules = !record.setting("overrides").empty();
  const bool mentioned = record.setting("overrides").find("llm_int8") != std::string::npos;
  const std::string bits = own ? "W8A8" : or_nothing(code_bits(record));
  if (own) return rules ? "W8A8, mixed" : bits;
  return mentioned ? bits + " and W8A8" : bits;
}

void add_columns(const std::vector<std::string>& settings, const std::vector<std::string>& datasets,
                 ReportTable& table) {
  table.add_column("method");
  table.add_column("bits", true);
  table.add_column("group", true);
  for (const std::string& key : settings) table.add_column(key);
  table.add_column("calibration");
  for (const std::string& dataset : datasets) {
    // With one dataset its name in the first column says it for all four.
    const std::string prefix = datasets.size() > 1 ? dataset + " " : std::string();
    table.add_column(dataset + " perplexity", true);
    table.add_column(prefix + "loss vs dense", true);
    table.add_column(prefix + "loss vs RTN", true);
    table.add_column(prefix + "windows", true);
  }
  table.add_column("bits/weight", true);
  table.add_column("quantize, s", true);
  table.add_column("marks");
}

}  // namespace

Section main_section(const RecordPointers& rows, const std::vector<Record>& all) {
  const std::vector<std::string> settings = varying_beside_label(rows);
  const ShownSettings texts(rows);
  const std::vector<std::string> datasets = perplexity_datasets(rows);
  ReportTable table;
  add_columns(settings, datasets, table);
  for (const Record* row : rows) {
    std::vector<std::string> cells = {or_nothing(row->setting("method.name")), bits_text(*row),
                                      group_text(*row)};
    for (const std::string& key : settings) cells.push_back(or_nothing(texts.of(*row, key)));
    cells.push_back(calibration_text(*row));
    for (const std::string& dataset : datasets) {
      cells.push_back(perplexity_text(find_metric(*row, "perplexity." + dataset)));
      cells.push_back(difference_text(*row, dense_baseline(*row, all, dataset), dataset));
      cells.push_back(difference_text(*row, rtn_baseline(*row, all, dataset), dataset));
      cells.push_back(windows_text(*row, dataset));
    }
    cells.push_back(bits_per_weight_text(*row));
    cells.push_back(seconds_text(*row));
    cells.push_back(marks_text(*row));
    table.add_row(std::move(cells));
  }
  return {"main", "", "", std::move(table), {}, kLegend};
}

}  // namespace gptqb
