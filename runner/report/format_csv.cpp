// results.csv: one row a cell. After id, experiment, status, reason, settings and metrics come, for
// each metric with an error, `<metric>.stderr`; for each published value `expected.<metric>`; for
// each dataset `windows.`, `seqlen.`, `loss_vs_dense.` and `loss_vs_rtn.` (mean paired difference
// in nats a token) with
// `.ci95` (half the width of its interval); and the layers that fell back, device and commit.
#include "runner/report/baseline.h"
#include "runner/report/csv_table.h"
#include "runner/report/report.h"
#include "runner/report/sections.h"

namespace gptqb {
namespace {

void add_columns(const std::vector<Record>& records, CsvTable& table) {
  for (const char* column : {"cell_id", "experiment", "status", "reason"}) table.add_column(column);
  for (const Record& record : records)
    for (const auto& [key, text] : record.settings) table.add_column(key);
  for (const Record& record : records)
    for (const Metric& metric : all_metrics(record)) table.add_column(metric.name);
  for (const Record& record : records)
    for (const Metric& metric : record.metrics)
      if (metric.standard_error) table.add_column(metric.name + ".stderr");
  for (const Record& record : records)
    for (const Expectation& expectation : record.expectations)
      if (is_published_value(expectation)) table.add_column("expected." + expectation.metric);
}

void set_difference(const std::string& column, const std::optional<PairedDifference>& difference,
                    CsvTable& table) {
  table.add_column(column);
  table.add_column(column + ".ci95");
  if (!difference) return;
  table.set(column, difference->mean);
  table.set(column + ".ci95", difference->half_width);
}

void set_dataset(const Record& record, const std::vector<Record>& records,
                 const std::string& dataset, CsvTable& table) {
  table.add_column("windows." + dataset);
  table.add_column("seqlen." + dataset);
  if (const WindowsRecord* windows = evaluation_windows_of(record, dataset)) {
    table.set("windows." + dataset, windows->count);
    table.set("seqlen." + dataset, windows->seqlen);
  }
  const Record* dense = dense_baseline(record, records, dataset);
  const Record* rtn = rtn_baseline(record, records, dataset);
  set_difference("loss_vs_dense." + dataset, loss_difference(record, dense, dataset), table);
  set_difference("loss_vs_rtn." + dataset, loss_difference(record, rtn, dataset), table);
}

}  // namespace

std::string render_csv(const ReportData& data) {
  CsvTable table;
  add_columns(data.records, table);
  std::vector<const Record*> all;
  for (const Record& record : data.records) all.push_back(&record);
  const std::vector<std::string> datasets = perplexity_datasets(all);
  for (const Record& record : data.records) {
    table.add_row();
    table.set("cell_id", record.cell_id);
    table.set("experiment", record.experiment);
    table.set("status", status_name(record.status));
    table.set("reason", record.reason);
    for (const auto& [key, text] : record.settings) table.set(key, text);
    for (const Metric& metric : all_metrics(record)) table.set(metric.name, metric.value);
    for (const Metric& metric : record.metrics)
      if (metric.standard_error) table.set(metric.name + ".stderr", *metric.standard_error);
    for (const Expectation& expectation : record.expectations)
      if (is_published_value(expectation))
        table.set("expected." + expectation.metric, *expectation.value);
    for (const std::string& dataset : datasets) set_dataset(record, data.records, dataset, table);
    table.set("fallback_layers", static_cast<int64_t>(fallback_layers(record).size()));
    table.set("resumed_blocks", record.resumed_blocks);
    table.set("device", device_name(record.environment));
    table.set("commit", commit_text(record.environment.build));
  }
  return table.text();
}

}  // namespace gptqb
