#include "runner/report/report.h"

#include <algorithm>

#include "common/atomic_file.h"
#include "runner/report/kernels_csv.h"
#include "runner/report/layers_csv.h"
#include "runner/report/roofline.h"

namespace gptqb {

#define GPTQB_REPORT_FORMAT(name, file, summary) std::string render_##name(const ReportData&);
#include "runner/report/report_formats.def"
#undef GPTQB_REPORT_FORMAT

const Registry<ReportFormat>& report_formats() {
  static const Registry<ReportFormat> registry("report format", {
#define GPTQB_REPORT_FORMAT(name, file, summary) {#name, summary, {file, render_##name}, ""},
#include "runner/report/report_formats.def"
#undef GPTQB_REPORT_FORMAT
                                                                });
  return registry;
}

ReportData report_data(LoadedRecords loaded, const std::filesystem::path& output) {
  std::vector<Verdict> verdicts = judge_records(loaded.records);
  return {std::move(loaded.records), std::move(verdicts), std::move(loaded.damaged),
          load_plots(output)};
}

std::vector<std::filesystem::path> write_reports(const std::filesystem::path& output,
                                                 const ReportData& data) {
  std::vector<std::filesystem::path> files;
  const auto write = [&](const std::string& name, const std::string& text) {
    write_file_atomically(output / name, text);
    files.push_back(output / name);
  };
  for (const auto& entry : report_formats().entries())
    write(entry.make.file, entry.make.render(data));
  write("layers.csv", layers_csv(data.records));
  std::vector<const Record*> measured;
  for (const Record& record : data.records)
    if (!record.kernels.empty()) measured.push_back(&record);
  if (!measured.empty()) write("kernels.csv", kernels_csv(data.records));
  for (const Record* record : measured) {
    const std::string of = measured.size() == 1 ? "" : "-" + record->cell_id;
    write("plots/roofline" + of + ".svg", roofline_svg(*record));
  }
  return files;
}

std::vector<std::string> perplexity_datasets(const std::vector<const Record*>& records) {
  const std::string prefix = "perplexity.";
  std::vector<std::string> result;
  for (const Record* record : records) {
    for (const Metric& metric : record->metrics) {
      if (metric.name.rfind(prefix, 0) != 0) continue;
      const std::string dataset = metric.name.substr(prefix.size());
      if (std::find(result.begin(), result.end(), dataset) == result.end())
        result.push_back(dataset);
    }
  }
  return result;
}

}  // namespace gptqb
