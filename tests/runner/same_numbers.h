// What two runs of the same cells must have in common: all but when, how fast, in how much memory
// and in how many pieces they ran.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "common/atomic_file.h"
#include "common/text.h"
#include "runner/record.h"

namespace gptqb::test {

// Each record of `output`, which must all be finished, as JSON.
inline std::vector<std::string> numbers_of(const std::filesystem::path& output) {
  LoadedRecords loaded = load_records(output);
  EXPECT_TRUE(loaded.damaged.empty()) << join(loaded.damaged, "; ");
  std::vector<std::string> result;
  for (Record& record : loaded.records) {
    EXPECT_EQ(record.status, CellStatus::kOk) << record.reason;
    std::erase_if(record.metrics, [](const Metric& metric) {
      return metric.name.starts_with("seconds.") || metric.name.starts_with("busy_seconds.");
    });
    record.seconds.clear();
    record.peak_bytes.clear();
    record.environment = {};
    record.resumed_blocks = 0;
    for (LayerHealth& layer : record.layers)
      layer.seconds_hessian = layer.seconds_factor = layer.seconds_solve = layer.seconds_errors = 0;
    result.push_back(to_json(record));
  }
  return result;
}

// The values of a CSV line; "..." keeps its commas.
inline std::vector<std::string> csv_values(const std::string& line) {
  std::vector<std::string> values(1);
  bool quoted = false;
  for (const char letter : line) {
    if (letter == '"')
      quoted = !quoted;
    else if (letter == ',' && !quoted)
      values.emplace_back();
    else
      values.back() += letter;
  }
  return values;
}

// A table without its columns of times and peaks.
inline std::string untimed(const std::filesystem::path& table) {
  std::istringstream file(read_file(table));
  std::string text, line;
  std::vector<bool> left_out;
  while (std::getline(file, line)) {
    const std::vector<std::string> values = csv_values(line);
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string& name = values[i];
      if (left_out.size() <= i)
        left_out.push_back(name.starts_with("seconds") || name.starts_with("busy_seconds") ||
                           name.starts_with("bytes.host_") || name.starts_with("bytes.device_") ||
                           name.starts_with("bytes.disk_") || name == "resumed_blocks");
      if (!left_out[i]) text += values[i] + ',';
    }
    text += '\n';
  }
  return text;
}

}  // namespace gptqb::test
