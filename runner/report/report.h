// Tables made from records. Nothing else goes in, so they can be made again at any time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/registry.h"
#include "runner/record.h"
#include "runner/report/plot_files.h"
#include "runner/verdict.h"

namespace gptqb {

struct ReportData {
  std::vector<Record> records;  // rows, in this order
  std::vector<Verdict> verdicts;
  std::vector<std::string> damaged;  // messages of record files that could not be read
  std::vector<PlotFile> plots{};     // that lie beside the records, for report.html
};

// All of an output folder, judged by the expectations that its records carry. `loaded` is what
// load_records() found there.
ReportData report_data(LoadedRecords loaded, const std::filesystem::path& output);

struct ReportFormat {
  const char* file;  // name in the output folder
  std::string (*render)(const ReportData& data);
};

// report_formats.def: md, csv, json, latex, html.
const Registry<ReportFormat>& report_formats();

// Writes every format and layers.csv into `output`, each atomically; if kernels were measured,
// kernels.csv and plots/roofline.svg too (of several cells: roofline-<cell id>.svg). Returns the
// files in the order written.
std::vector<std::filesystem::path> write_reports(const std::filesystem::path& output,
                                                 const ReportData& data);

// Datasets of which any record has a perplexity, in the order they first appear.
std::vector<std::string> perplexity_datasets(const std::vector<const Record*>& records);

}  // namespace gptqb
