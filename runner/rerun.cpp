#include "runner/rerun.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/text.h"
#include "runner/layer_json.h"
#include "runner/metric_kind.h"

namespace gptqb {
namespace {

using Json = nlohmann::json;

class Differences {
 public:
  void add(const std::string& what, const std::string& before, const std::string& after) {
    if (before != after) all_.push_back({what, before, after});
  }
  void add(const std::string& what, int64_t before, int64_t after) {
    add(what, std::to_string(before), std::to_string(after));
  }
  // To the bit, but for what NaN is made of.
  void add(const std::string& what, double before, double after) {
    if (before == after || (std::isnan(before) && std::isnan(after))) return;
    all_.push_back({what, number_text(before), number_text(after)});
  }
  void add(const std::string& what, const std::optional<double>& before,
           const std::optional<double>& after) {
    if (before && after) return add(what, *before, *after);
    add(what, before ? number_text(*before) : "none", after ? number_text(*after) : "none");
  }
  std::vector<Difference> take() { return std::move(all_); }

 private:
  std::vector<Difference> all_;
};

std::string windows_key(const WindowsRecord& windows) {
  const std::string by = windows.role != "evaluation" ? ""
                         : windows.evaluator.empty()  ? " perplexity"
                                                      : " " + windows.evaluator;
  return windows.role + by + " " + windows.name;
}

void add_files(const std::string& of, const std::vector<SourceFile>& before,
               const std::vector<SourceFile>& after, Differences& differences) {
  std::map<std::string, std::string> was, is;
  for (const SourceFile& file : before) was[file.path] = file.sha256;
  for (const SourceFile& file : after) is[file.path] = file.sha256;
  for (const auto& [path, hash] : was)
    differences.add("file " + path + of, hash, is.contains(path) ? is[path] : "none");
  for (const auto& [path, hash] : is)
    if (!was.contains(path)) differences.add("file " + path + of, "none", hash);
}

void add_samples(const Metric& before, const Metric& after, Differences& differences) {
  differences.add("samples of " + before.name, static_cast<int64_t>(before.samples.size()),
                  static_cast<int64_t>(after.samples.size()));
  if (before.samples.size() != after.samples.size()) return;
  for (size_t i = 0; i < before.samples.size(); ++i)
    differences.add("sample " + std::to_string(i) + " of " + before.name, before.samples[i],
                    after.samples[i]);
}

// Of the packed folder that `save` writes: no setting of the cell asks for one.
bool is_of_checkpoint(const std::string& metric) {
  return metric == "bytes.checkpoint" || metric.starts_with("perplexity_packed.") ||
         metric.starts_with("packed_difference.");
}

void add_metrics(const Record& before, const Record& after, Differences& differences) {
  for (const Metric& metric : all_metrics(before)) {
    if (is_reading(metric.name)) continue;
    const std::optional<Metric> now = find_metric(after, metric.name);
    if (!now && is_of_checkpoint(metric.name)) continue;
    if (!now) {
      differences.add(metric.name, number_text(metric.value), std::string("none"));
      continue;
    }
    differences.add(metric.name, metric.value, now->value);
    differences.add("standard error of " + metric.name, metric.standard_error, now->standard_error);
    add_samples(metric, *now, differences);
  }
  for (const Metric& metric : all_metrics(after))
    if (!is_reading(metric.name) && !find_metric(before, metric.name))
      differences.add(metric.name, std::string("none"), number_text(metric.value));
}

// Every field that a record has, but for seconds.
void add_layers(const Record& before, const Record& after, Differences& differences) {
  const Json was = Json::parse(layers_to_json(before.layers));
  const Json is = Json::parse(layers_to_json(after.layers));
  differences.add("number of layers", static_cast<int64_t>(was.size()),
                  static_cast<int64_t>(is.size()));
  if (was.size() != is.size()) return;
  for (size_t i = 0; i < was.size(); ++i)
    for (const auto& [field, value] : was[i].items()) {
      if (field.starts_with("seconds_")) continue;
      const Json now = is[i].value(field, Json());
      if (value != now)
        differences.add(field + " of " + before.layers[i].layer, value.dump(), now.dump());
    }
}

}  // namespace

std::vector<Difference> input_differences(const InputsRecord& before, const InputsRecord& after) {
  Differences differences;
  differences.add("model's fingerprint", before.model_fingerprint, after.model_fingerprint);
  differences.add("tokenizer's fingerprint", before.tokenizer_fingerprint,
                  after.tokenizer_fingerprint);
  differences.add("external program's fingerprint", before.external_fingerprint,
                  after.external_fingerprint);
  if (!before.files.empty() && !after.files.empty())
    add_files(" of the model", before.files, after.files, differences);
  std::map<std::string, const WindowsRecord*> was, is;
  for (const WindowsRecord& windows : before.windows) was[windows_key(windows)] = &windows;
  for (const WindowsRecord& windows : after.windows) is[windows_key(windows)] = &windows;
  for (const auto& [key, windows] : was) {
    if (!is.contains(key)) {
      differences.add(key + " windows", windows->ids_sha256, std::string("none"));
      continue;
    }
    const WindowsRecord& now = *is[key];
    differences.add("number of " + key + " windows", windows->count, now.count);
    differences.add("tokens in each of the " + key + " windows", windows->seqlen, now.seqlen);
    differences.add("ids of the " + key + " windows", windows->ids_sha256, now.ids_sha256);
    add_files(" of the " + key + " windows", windows->files, now.files, differences);
  }
  for (const auto& [key, windows] : is)
    if (!was.contains(key))
      differences.add(key + " windows", std::string("none"), windows->ids_sha256);
  return differences.take();
}

std::vector<Difference> result_differences(const Record& before, const Record& after) {
  Differences differences;
  differences.add("status", std::string(status_name(before.status)),
                  std::string(status_name(after.status)));
  differences.add("reason", before.reason, after.reason);
  add_metrics(before, after, differences);
  add_layers(before, after, differences);
  return differences.take();
}

}  // namespace gptqb
