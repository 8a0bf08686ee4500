#include "runner/report/baseline.h"

#include <functional>
#include <map>

#include "runner/report/number_format.h"

namespace gptqb {
namespace {

// Settings under any of these prefixes.
std::map<std::string, std::string> settings_under(const Record& record,
                                                  const std::vector<std::string>& prefixes) {
  std::map<std::string, std::string> result;
  for (const auto& [key, text] : record.settings)
    for (const std::string& prefix : prefixes)
      if (key.rfind(prefix, 0) == 0) result[key] = text;
  return result;
}

// Computed alike, too.
bool same_model(const Record& a, const Record& b) {
  const std::vector<std::string> prefixes = {"model.", "compat.forward"};
  return a.inputs.model_fingerprint == b.inputs.model_fingerprint &&
         a.inputs.tokenizer_fingerprint == b.inputs.tokenizer_fingerprint &&
         settings_under(a, prefixes) == settings_under(b, prefixes);
}

const Record* find(const std::vector<Record>& records,
                   const std::function<bool(const Record&)>& fits) {
  for (const Record& record : records)
    if (record.status == CellStatus::kOk && fits(record)) return &record;
  return nullptr;
}

}  // namespace

bool same_windows(const Record& a, const Record& b, const std::string& dataset,
                  const std::string& evaluator) {
  const WindowsRecord* ours = evaluation_windows_of(a, dataset, evaluator);
  const WindowsRecord* theirs = evaluation_windows_of(b, dataset, evaluator);
  const std::string bos = "evaluate." + evaluator + ".bos";
  return ours && theirs && ours->ids_sha256 == theirs->ids_sha256 && ours->count == theirs->count &&
         ours->seqlen == theirs->seqlen && a.setting(bos) == b.setting(bos) &&
         (evaluator != "perplexity" ||
          a.setting("compat.loss_dtype") == b.setting("compat.loss_dtype"));
}

const Record* dense_baseline(const Record& record, const std::vector<Record>& records,
                             const std::string& dataset) {
  return find(records, [&](const Record& other) {
    return other.setting("method.name") == "none" && same_model(record, other) &&
           same_windows(record, other, dataset);
  });
}

const Record* rtn_baseline(const Record& record, const std::vector<Record>& records,
                           const std::string& dataset, const std::string& evaluator) {
  if (record.setting("method.name") == "none") return nullptr;
  // Also the policies that RTN itself depends on: two RTN cells may differ in nothing else.
  const std::vector<std::string> prefixes = {"compat.one_sided", "compat.rtn_", "quant.",
                                             "overrides",        "method.rows", "method.layers"};
  return find(records, [&](const Record& other) {
    return other.setting("method.name") == "rtn" && same_model(record, other) &&
           settings_under(record, prefixes) == settings_under(other, prefixes) &&
           same_windows(record, other, dataset, evaluator);
  });
}

std::optional<PairedDifference> metric_difference(const Record& record, const Record* baseline,
                                                  const std::string& metric) {
  if (!baseline) return std::nullopt;
  const auto ours = find_metric(record, metric);
  const auto theirs = find_metric(*baseline, metric);
  if (!ours || !theirs) return std::nullopt;
  return paired_difference(ours->samples, theirs->samples);
}

std::optional<PairedDifference> loss_difference(const Record& record, const Record* baseline,
                                                const std::string& dataset) {
  return metric_difference(record, baseline, "perplexity." + dataset);
}

std::string paired_text(const PairedDifference& difference) {
  // Digits follow the interval: more would be noise.
  if (!difference.half_width) return signed_text(difference.mean, 3) + " (1 window)";
  const std::string text =
      signed_text(difference.mean, 3) + " ± " + significant_text(*difference.half_width, 2);
  return difference.tie() ? "tie (" + text + ")" : text;
}

}  // namespace gptqb
