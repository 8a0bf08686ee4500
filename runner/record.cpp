#include "runner/record.h"

#include <algorithm>
#include <tuple>

#include "common/atomic_file.h"
#include "common/error.h"

namespace gptqb {
namespace {

constexpr std::string_view kLayerPrefix = "layer.";

std::optional<double> layer_field(const LayerHealth& layer, std::string_view field) {
  if (field == "loss") return layer.loss;
  if (field == "relative_error") return layer.relative_error;
  if (field == "relative_error_heldout") return layer.relative_error_heldout;
  if (field == "relative_error_rtn") return layer.relative_error_rtn;
  if (field == "drift") return layer.drift;
  if (field == "damping") return layer.damping;
  if (field == "condition") return layer.condition;
  return std::nullopt;
}

// `name`: "layer.model.layers.0.self_attn.q_proj.loss".
std::optional<Metric> layer_metric(const Record& record, const std::string& name) {
  const size_t dot = name.rfind('.');
  if (dot <= kLayerPrefix.size()) return std::nullopt;
  const std::string layer_name = name.substr(kLayerPrefix.size(), dot - kLayerPrefix.size());
  for (const LayerHealth& layer : record.layers) {
    if (layer.layer != layer_name) continue;
    const std::optional<double> value = layer_field(layer, std::string_view(name).substr(dot + 1));
    if (!value) return std::nullopt;
    Metric metric;
    metric.name = name;
    metric.value = *value;
    metric.unit = std::string("1");
    return metric;
  }
  return std::nullopt;
}

}  // namespace

const char* status_name(CellStatus status) {
  switch (status) {
    case CellStatus::kOk:
      return "ok";
    case CellStatus::kSkipped:
      return "skipped";
    case CellStatus::kFailed:
      return "failed";
  }
  return "";
}

WindowsRecord describe_windows(const std::string& role, const std::string& name,
                               const TokenWindows& windows) {
  WindowsRecord result;
  result.role = role;
  result.name = name;
  result.dataset = windows.dataset;
  result.count = windows.count;
  result.seqlen = windows.seqlen;
  result.documents = windows.documents;
  result.stream_tokens = windows.stream_tokens;
  result.dropped_tokens = windows.dropped_tokens;
  result.ids_sha256 = windows.ids_sha256;
  result.files = windows.files;
  return result;
}

std::string Record::setting(const std::string& key) const {
  for (const auto& [name, text] : settings)
    if (name == key) return text;
  return "";
}

std::vector<Metric> all_metrics(const Record& record) {
  std::vector<Metric> result = record.metrics;
  const auto add = [&](const std::string& name, double value, const char* unit) {
    const bool known = std::any_of(record.metrics.begin(), record.metrics.end(),
                                   [&](const Metric& metric) { return metric.name == name; });
    if (known) return;
    Metric metric;
    metric.name = name;
    metric.value = value;
    metric.unit = unit;
    result.push_back(std::move(metric));
  };
  for (const auto& [phase, value] : record.seconds) add("seconds." + phase, value, "s");
  for (const auto& [name, value] : record.peak_bytes)
    add("bytes." + name, static_cast<double>(value), "bytes");
  return result;
}

std::optional<Metric> find_metric(const Record& record, const std::string& name) {
  if (name.rfind(kLayerPrefix, 0) == 0) return layer_metric(record, name);
  for (Metric& metric : all_metrics(record))
    if (metric.name == name) return std::move(metric);
  return std::nullopt;
}

const WindowsRecord* evaluation_windows_of(const Record& record, const std::string& dataset,
                                           const std::string& evaluator) {
  for (const WindowsRecord& windows : record.inputs.windows) {
    const std::string seen_by = windows.evaluator.empty() ? "perplexity" : windows.evaluator;
    if (windows.role == "evaluation" && windows.name == dataset && seen_by == evaluator)
      return &windows;
  }
  return nullptr;
}

bool is_synthetic(const Record& record) {
  return std::any_of(record.settings.begin(), record.settings.end(), [](const auto& setting) {
    return setting.first.rfind("model.synthetic", 0) == 0;
  });
}

std::vector<std::string> fallback_layers(const Record& record) {
  std::vector<std::string> result;
  for (const LayerHealth& layer : record.layers)
    if (layer.status != "ok" && layer.status.rfind("skipped", 0) != 0)
      result.push_back(layer.layer);
  return result;
}

std::vector<std::string> layers_worse_than_rtn(const Record& record) {
  std::vector<std::string> result;
  for (const LayerHealth& layer : record.layers)
    if (layer.method != "rtn" && layer.relative_error && layer.relative_error_rtn &&
        *layer.relative_error > *layer.relative_error_rtn)
      result.push_back(layer.layer);
  return result;
}

std::filesystem::path record_path(const std::filesystem::path& output, const std::string& cell_id) {
  return output / "records" / (cell_id + ".json");
}

void write_record(const std::filesystem::path& output, const Record& record) {
  write_file_atomically(record_path(output, record.cell_id), to_json(record));
}

LoadedRecords load_records(const std::filesystem::path& output) {
  LoadedRecords result;
  const std::filesystem::path folder = output / "records";
  if (!std::filesystem::is_directory(folder)) return result;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    // A dot begins a temporary file that a killed process left.
    const std::string name = entry.path().filename().string();
    if (name[0] != '.' && entry.path().extension() == ".json") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    try {
      result.records.push_back(record_from_json(read_file(file), file.string()));
    } catch (const Error& error) {
      result.damaged.push_back(error.what());
    }
  }
  std::stable_sort(result.records.begin(), result.records.end(),
                   [](const Record& a, const Record& b) {
                     return std::tie(a.experiment, a.position, a.cell_id) <
                            std::tie(b.experiment, b.position, b.cell_id);
                   });
  return result;
}

}  // namespace gptqb
