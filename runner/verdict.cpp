#include "runner/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runner/metric_kind.h"
#include "runner/report/number_format.h"

namespace gptqb {
namespace {

constexpr double kBorder = 1e-12;

std::string expectation_text(const Expectation& expectation) {
  if (expectation.at_most) return "at most " + number_text(*expectation.at_most);
  if (expectation.at_least) return "at least " + number_text(*expectation.at_least);
  std::string text = number_text(expectation.value.value_or(0));
  if (expectation.tolerance_absolute) text += " +- " + number_text(*expectation.tolerance_absolute);
  if (expectation.tolerance_relative)
    text += " +- " + significant_text(100 * *expectation.tolerance_relative, 3) + " %";
  return text;
}

double target_of(const Expectation& expectation) {
  if (expectation.at_most) return *expectation.at_most;
  if (expectation.at_least) return *expectation.at_least;
  return expectation.value.value_or(0);
}

// Outside the tolerance by either kind is outside where both are given.
bool holds(const Expectation& expectation, double measured) {
  const double target = target_of(expectation);
  const double border = kBorder * std::abs(target);
  const double deviation = measured - target;
  if (expectation.at_most) return deviation <= border;
  if (expectation.at_least) return deviation >= -border;
  double allowed = std::numeric_limits<double>::infinity();
  if (expectation.tolerance_absolute) allowed = *expectation.tolerance_absolute;
  if (expectation.tolerance_relative)
    allowed = std::min(allowed, *expectation.tolerance_relative * std::abs(target));
  return std::abs(deviation) <= allowed + border;
}

std::string deviation_text(double deviation, double target) {
  std::string text = signed_text(deviation, 3);
  if (target != 0) text += " (" + signed_text(100 * deviation / std::abs(target), 2) + " %)";
  return text;
}

// Time and memory are what made-up weights are good for.
bool measures_resources(const std::string& metric) {
  return is_time(metric) || metric.starts_with("bytes.") || metric.starts_with("decode.");
}

bool published_time(const Expectation& expectation) {
  return expectation.value && is_time(expectation.metric);
}

}  // namespace

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPass:
      return "PASS";
    case Outcome::kFail:
      return "FAIL";
    case Outcome::kNotRun:
      return "not run";
    case Outcome::kNotSupported:
      return "not supported yet";
    case Outcome::kNotComparable:
      return "not comparable";
  }
  return "";
}

std::vector<JudgedText> split_judged(const std::string& cell) {
  constexpr std::string_view kBetween = "; ";
  std::vector<JudgedText> parts;
  for (size_t at = 0; at < cell.size();) {
    const size_t end = std::min(cell.find(kBetween, at), cell.size());
    JudgedText& part = parts.emplace_back(JudgedText{cell.substr(at, end - at), {}});
    for (const Outcome outcome : kOutcomes) {
      const std::string name = std::string(" ") + outcome_name(outcome);
      if (!part.text.ends_with(name)) continue;
      part.text.resize(part.text.size() - name.size());
      part.outcome = outcome;
      break;
    }
    at = std::min(end + kBetween.size(), cell.size());
  }
  return parts;
}

Verdict judge(const Expectation& expectation, const std::string& cell_id,
              const std::string& experiment, const Record* record) {
  Verdict verdict;
  verdict.cell_id = cell_id;
  verdict.experiment = experiment;
  verdict.metric = expectation.metric;
  verdict.expected = expectation_text(expectation);
  verdict.source = expectation.source;
  if (!expectation.note.empty())
    verdict.source += (verdict.source.empty() ? "" : "; ") + expectation.note;
  verdict.where = expectation.where;
  const auto settle = [&](Outcome outcome, const std::string& reason) {
    verdict.outcome = outcome;
    verdict.reason = reason;
    return verdict;
  };

  if (!record) return settle(Outcome::kNotRun, "the cell has not run");
  if (record->status == CellStatus::kSkipped)
    return settle(record->reason.find("not supported") != std::string::npos ? Outcome::kNotSupported
                                                                            : Outcome::kNotRun,
                  record->reason);
  if (record->status == CellStatus::kFailed)
    return settle(Outcome::kNotRun, "the cell failed: " + record->reason);
  const std::optional<Metric> metric = find_metric(*record, expectation.metric);
  const bool other = !expectation.variant.empty();
  if (!metric && other) return settle(Outcome::kNotComparable, expectation.variant);
  if (!metric) return settle(Outcome::kFail, "the record has no such metric");
  if (!std::isfinite(metric->value))
    return settle(Outcome::kFail, "measured " + number_text(metric->value) +
                                      (metric->reason.empty() ? "" : ": " + metric->reason));

  const double target = target_of(expectation);
  verdict.measured = metric->value;
  verdict.deviation = metric->value - target;
  verdict.deviation_text = deviation_text(*verdict.deviation, target);
  if (other) return settle(Outcome::kNotComparable, expectation.variant);
  if (is_synthetic(*record) && !measures_resources(expectation.metric))
    return settle(Outcome::kNotComparable, "the model's weights are synthetic");
  if (published_time(expectation)) {
    if (target > 0) verdict.deviation_text = significant_text(metric->value / target, 3) + " x";
    return settle(Outcome::kNotComparable,
                  "a time on another device; here: " + device_line(record->environment));
  }
  if (holds(expectation, metric->value)) return settle(Outcome::kPass, "");
  return settle(Outcome::kFail, "off by " + verdict.deviation_text);
}

std::vector<Verdict> judge_records(const std::vector<Record>& records) {
  std::vector<Verdict> result;
  for (const Record& record : records)
    for (const Expectation& expectation : record.expectations)
      result.push_back(judge(expectation, record.cell_id, record.experiment, &record));
  return result;
}

bool any_failed(const std::vector<Verdict>& verdicts) {
  return std::any_of(verdicts.begin(), verdicts.end(),
                     [](const Verdict& verdict) { return verdict.outcome == Outcome::kFail; });
}

}  // namespace gptqb
