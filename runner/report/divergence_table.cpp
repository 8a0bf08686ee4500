#include <algorithm>

#include "runner/report/baseline.h"
#include "runner/report/number_format.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

constexpr const char* kLegend =
    "KL(dense || model) of the next token's distribution, in nats, over the predicted tokens of "
    "the "
    "same windows: mean a token ± its standard error, 99th percentile, maximum. vs RTN: paired "
    "difference of the mean ± half its 95 % interval. Top-1: share of tokens for which both models "
    "put the same token first. Right token: mean change of the probability of the token that "
    "follows.";

// Datasets of which any row has a divergence, in the order they first appear.
std::vector<std::string> divergence_datasets(const RecordPointers& rows) {
  std::vector<std::string> result;
  for (const Record* row : rows)
    for (const WindowsRecord& windows : row->inputs.windows)
      if (windows.evaluator == "divergence" &&
          find_metric(*row, "divergence." + windows.name + ".mean_kl") &&
          std::find(result.begin(), result.end(), windows.name) == result.end())
        result.push_back(windows.name);
  return result;
}

std::string value_text(const Record& record, const std::string& name) {
  const auto metric = find_metric(record, name);
  if (!metric) return kNothing;
  std::string text = significant_text(metric->value, 3);
  if (metric->standard_error) text += " ± " + significant_text(*metric->standard_error, 2);
  return text;
}

// A share as percent.
std::string percent_text(const Record& record, const std::string& name, bool with_sign) {
  const auto metric = find_metric(record, name);
  if (!metric) return kNothing;
  const double percent = 100 * metric->value;
  std::string text = with_sign ? signed_text(percent, 3) : significant_text(percent, 4);
  if (metric->standard_error) text += " ± " + significant_text(100 * *metric->standard_error, 2);
  return text;
}

}  // namespace

Section divergence_section(const RecordPointers& rows, const std::vector<Record>& all) {
  const std::vector<std::string> settings = varying_beside_label(rows);
  const ShownSettings texts(rows);
  ReportTable table;
  table.add_column("cell");
  for (const std::string& key : settings) table.add_column(key);
  table.add_column("dataset");
  for (const char* title :
       {"mean KL", "vs RTN", "p99", "max", "top-1, %", "right token, %", "windows"})
    table.add_column(title, true);
  for (const std::string& dataset : divergence_datasets(rows)) {
    const std::string prefix = "divergence." + dataset + ".";
    for (const Record* row : rows) {
      const WindowsRecord* windows = evaluation_windows_of(*row, dataset, "divergence");
      if (!windows || !find_metric(*row, prefix + "mean_kl")) continue;
      std::vector<std::string> cells = {cell_label(*row)};
      for (const std::string& key : settings) cells.push_back(or_nothing(texts.of(*row, key)));
      const Record* rtn = rtn_baseline(*row, all, dataset, "divergence");
      const auto difference = metric_difference(*row, rtn, prefix + "mean_kl");
      cells.push_back(dataset);
      cells.push_back(value_text(*row, prefix + "mean_kl"));
      cells.push_back(rtn && rtn->cell_id == row->cell_id ? "(baseline)"
                      : difference                        ? paired_text(*difference)
                                                          : kNothing);
      cells.push_back(value_text(*row, prefix + "p99_kl"));
      cells.push_back(value_text(*row, prefix + "max_kl"));
      cells.push_back(percent_text(*row, prefix + "top1_agreement", false));
      cells.push_back(percent_text(*row, prefix + "right_token_probability_change", true));
      cells.push_back(std::to_string(windows->count) + " x " + std::to_string(windows->seqlen));
      table.add_row(std::move(cells));
    }
  }
  return {"divergence", "Divergence from the dense model", "", std::move(table), {}, kLegend};
}

}  // namespace gptqb
