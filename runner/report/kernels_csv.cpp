#include "runner/report/kernels_csv.h"

#include "runner/report/csv_table.h"

namespace gptqb {
namespace {

constexpr const char* kColumns[] = {"kernel",
                                    "k",
                                    "n",
                                    "m",
                                    "bits",
                                    "group_size",
                                    "symmetric",
                                    "act_order",
                                    "dtype",
                                    "us",
                                    "us_p10",
                                    "us_p90",
                                    "gb_per_s",
                                    "tflop_per_s",
                                    "bandwidth_share",
                                    "dense_rate_share",
                                    "speedup_vs_f16",
                                    "max_relative_error",
                                    "mean_relative_error",
                                    "error_of_bound",
                                    "reason",
                                    "cache",
                                    "weight_bytes",
                                    "calls",
                                    "repetitions",
                                    "clock_mhz",
                                    "throttled",
                                    "read_gb_per_s",
                                    "dense_tflop_per_s",
                                    "device",
                                    "cell_id"};

const char* word(bool value) { return value ? "true" : "false"; }

void add_row(const Record& record, const KernelRow& row, CsvTable& table) {
  table.add_row();
  table.set("kernel", row.kernel);
  table.set("k", row.k);
  table.set("n", row.n);
  table.set("m", row.m);
  table.set("bits", row.bits);
  if (!row.dense()) {
    table.set("group_size", row.group_size);
    table.set("symmetric", word(row.symmetric));
    table.set("act_order", word(row.act_order));
  }
  table.set("dtype", row.dtype);
  table.set("us", row.us);
  table.set("us_p10", row.us_p10);
  table.set("us_p90", row.us_p90);
  table.set("gb_per_s", row.gb_per_s);
  table.set("tflop_per_s", row.tflop_per_s);
  table.set("bandwidth_share", row.bandwidth_share);
  table.set("dense_rate_share", row.dense_rate_share);
  table.set("speedup_vs_f16", row.speedup_vs_f16);
  table.set("max_relative_error", row.max_relative_error);
  table.set("mean_relative_error", row.mean_relative_error);
  table.set("error_of_bound", row.error_of_bound);
  table.set("reason", row.reason);
  table.set("cache", row.cache);
  table.set("weight_bytes", row.weight_bytes);
  table.set("calls", row.calls);
  table.set("repetitions", row.repetitions);
  if (row.clock_mhz > 0) table.set("clock_mhz", row.clock_mhz);
  table.set("throttled", row.throttled);
  table.set("read_gb_per_s", row.read_gb_per_s);
  table.set("dense_tflop_per_s", row.dense_tflop_per_s);
  const Environment& environment = record.environment;
  table.set("device", device_name(environment));
  table.set("cell_id", record.cell_id);
}

}  // namespace

std::string kernels_csv(const std::vector<Record>& records) {
  CsvTable table;
  for (const char* column : kColumns) table.add_column(column);
  bool any = false;
  for (const Record& record : records)
    for (const KernelRow& row : record.kernels) {
      add_row(record, row, table);
      any = true;
    }
  return any ? table.text() : "";
}

}  // namespace gptqb
