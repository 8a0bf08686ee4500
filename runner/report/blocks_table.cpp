#include <algorithm>
#include <iterator>

#include "common/hash.h"
#include "runner/report/number_format.h"
#include "runner/report/sections.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

constexpr const char* kBlockSize = "method.block_size";

// The first digits of a hash over all layers.
std::string codes_text(const Record& record) {
  std::string all;
  for (const LayerHealth& layer : record.layers) all += layer.codes + "\n";
  return sha256_hex(all).substr(0, 8);
}

std::string same_codes_text(const Record& record, const Record& first) {
  if (&record == &first) return "first";
  size_t same = 0;
  for (size_t i = 0; i < record.layers.size(); ++i)
    same += i < first.layers.size() && record.layers[i].codes == first.layers[i].codes;
  return std::to_string(same) + " of " + std::to_string(record.layers.size());
}

bool has_codes(const Record& record) {
  return record.status == CellStatus::kOk && !record.setting(kBlockSize).empty() &&
         std::any_of(record.layers.begin(), record.layers.end(),
                     [](const LayerHealth& layer) { return !layer.codes.empty(); });
}

}  // namespace

Section blocks_section(const RecordPointers& rows) {
  RecordPointers usable;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(usable),
               [](const Record* row) { return has_codes(*row); });
  const auto groups = alike_but_for(usable, {kBlockSize});
  if (groups.empty()) return {};

  RecordPointers shown;
  for (const RecordPointers& group : groups) shown.insert(shown.end(), group.begin(), group.end());
  auto settings = varying_beside_label(shown);
  const ShownSettings texts(shown);
  std::erase(settings, kBlockSize);
  ReportTable table;
  table.add_column("cells");
  for (const std::string& key : settings) table.add_column(key);
  table.add_column("block size", true);
  table.add_column("solve, s", true);
  table.add_column("codes");
  table.add_column("layers with the first one's codes");
  for (const RecordPointers& group : groups)
    for (const Record* row : group) {
      std::vector<std::string> cells = {cell_label(*row)};
      for (const std::string& key : settings) cells.push_back(texts.of(*row, key));
      const auto seconds = find_metric(*row, "seconds.solve");
      cells.push_back(row->setting(kBlockSize));
      cells.push_back(seconds ? significant_text(seconds->value, 3) : "");
      cells.push_back(codes_text(*row));
      cells.push_back(same_codes_text(*row, *group.front()));
      table.add_row(std::move(cells));
    }
  return {"blocks",
          "Blocks of columns: time and codes",
          "",
          std::move(table),
          {},
          "Solve: seconds for columns and errors of all layers, without factors. Codes: a hash of "
          "those of all layers."};
}

}  // namespace gptqb
