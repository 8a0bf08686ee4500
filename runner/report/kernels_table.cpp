// What was measured of kernels, for a person: times beside the device's ceilings, and where the
// dense product wins.
#include <algorithm>
#include <map>
#include <tuple>

#include "runner/report/kernel_words.h"
#include "runner/report/number_format.h"
#include "runner/report/sections.h"

namespace gptqb {
namespace {

std::string percent(double share) { return fixed_text(100 * share, share < 0.1 ? 1 : 0); }

// A kernel that is slower than the dense product must not look like one that is faster (PF-02).
std::string speedup_text(const KernelRow& row) {
  if (row.dense()) return "(baseline)";
  const std::string text = significant_text(row.speedup_vs_f16, 3) + "x";
  return row.speedup_vs_f16 < 1 ? text + ", slower" : text;
}

std::string marks_text(const KernelRow& row) {
  std::string marks;
  if (row.cache == "warm") marks = "warm cache";
  if (!row.throttled.empty()) marks += (marks.empty() ? "" : "; ") + row.throttled;
  return marks;
}

void add_row(const KernelRow& row, ReportTable& table) {
  table.add_row({shape_words(row), std::to_string(row.m), row.kernel, weight_words(row), row.dtype,
                 significant_text(row.us, 3),
                 significant_text(row.us_p10, 3) + " – " + significant_text(row.us_p90, 3),
                 significant_text(row.gb_per_s, 3), percent(row.bandwidth_share),
                 significant_text(row.tflop_per_s, 3), percent(row.dense_rate_share),
                 speedup_text(row), significant_text(row.max_relative_error, 2),
                 significant_text(row.mean_relative_error, 2), marks_text(row)});
}

// What decides which rows differ in m alone, in the order of a table.
using Weight = std::tuple<int64_t, int64_t, std::string, int64_t, int64_t, bool, bool>;

Section crossover_section(const Record& record) {
  std::map<std::tuple<int64_t, int64_t, std::string, int64_t>, double> dense;  // us
  const std::string dense_type = record.environment.gpu.empty() ? "float32" : "";
  for (const KernelRow& row : record.kernels)
    if (row.dense()) dense[{row.k, row.n, row.dtype, row.m}] = row.us;
  std::vector<Weight> order;
  std::map<Weight, std::map<int64_t, KernelRow>> weights;  // by m, the fastest kernel
  for (const KernelRow& row : record.kernels) {
    if (row.dense()) continue;
    const Weight weight{row.k,          row.n,         row.dtype,    row.bits,
                        row.group_size, row.symmetric, row.act_order};
    if (!weights.contains(weight)) order.push_back(weight);
    auto& by_m = weights[weight];
    const auto known = by_m.find(row.m);
    if (known == by_m.end() || row.us < known->second.us) by_m.insert_or_assign(row.m, row);
  }
  ReportTable table;
  for (const char* title : {"K x N", "weights", "type"}) table.add_column(title);
  for (const char* title :
       {"M measured", "dense wins from M", "speed-up at the least M", "speed-up at the largest M"})
    table.add_column(title, true);
  for (const Weight& weight : order) {
    const auto& by_m = weights[weight];
    const KernelRow& first = by_m.begin()->second;
    const KernelRow& last = by_m.rbegin()->second;
    std::string wins = "not up to " + std::to_string(last.m);
    for (const auto& [m, row] : by_m) {
      const auto time = dense.find({row.k, row.n, dense_type.empty() ? row.dtype : dense_type, m});
      if (time == dense.end() || time->second >= row.us) continue;
      wins = std::to_string(m);
      break;
    }
    table.add_row({shape_words(first), weight_words(first), first.dtype,
                   first.m == last.m ? std::to_string(first.m)
                                     : std::to_string(first.m) + " – " + std::to_string(last.m),
                   wins, significant_text(first.speedup_vs_f16, 3) + "x",
                   significant_text(last.speedup_vs_f16, 3) + "x"});
  }
  return {"crossover", "Where the dense product wins", "", std::move(table), {}, ""};
}

std::string ceilings_text(const Record& record) {
  std::string text = "Reached on this device in the same run: ";
  for (const Metric& metric : record.metrics) {
    if (metric.name == "kernels.read.gb_per_s")
      text += "plain read of 1 GiB " + significant_text(metric.value, 4) + " GB/s";
    if (const std::string type = dense_rate_type(metric.name); !type.empty())
      text +=
          "; large dense product in " + type + " " + significant_text(metric.value, 4) + " TFLOP/s";
  }
  return text + ".";
}

}  // namespace

std::vector<Section> kernel_sections(const RecordPointers& rows) {
  std::vector<Section> sections;
  for (const Record* record : rows) {
    if (record->kernels.empty()) continue;
    ReportTable table;
    table.add_column("K x N");
    table.add_column("M", true);
    for (const char* title : {"kernel", "weights", "type"}) table.add_column(title);
    for (const char* title : {"us", "p10 – p90", "GB/s", "% of read", "TFLOP/s", "% of dense",
                              "vs dense", "error max", "error mean"})
      table.add_column(title, true);
    table.add_column("marks");
    for (const KernelRow& row : record->kernels) add_row(row, table);
    const bool on_gpu = !record->environment.gpu.empty();
    const std::string note =
        std::string("Median over repetitions of many calls in a row") +
        (on_gpu ? " in a CUDA graph" : "") +
        "; results were checked against float64 before. GB/s: the packed weight alone, each byte "
        "once. vs dense: over the dense product of the same shape, " +
        (on_gpu ? "by cuBLAS" : "in float32 by ATen") +
        ". Errors: largest over the largest value, mean over the mean size. Which kernel was taken "
        "and why, clocks and bytes: kernels.csv.";
    sections.push_back({"kernels", "Kernels", ceilings_text(*record), std::move(table), {}, note});
    sections.push_back(crossover_section(*record));
  }
  return sections;
}

}  // namespace gptqb
