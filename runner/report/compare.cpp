#include "runner/report/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/text.h"
#include "runner/metric_kind.h"
#include "runner/report/baseline.h"
#include "runner/report/kernel_words.h"
#include "runner/report/number_format.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

// Beyond so many tolerances a worsening is no matter of few windows.
constexpr double kSurely = 4;
// Losses and divergences: what another order of summation does, in nats a token.
constexpr double kSmallestLoss = 1e-4;

using Runs = std::vector<const Record*>;

// Why a metric says nothing about the code, whatever it does; "" if it does.
std::string no_verdict(const std::string& name) {
  if (name.ends_with("_planned")) return "an estimate";
  if (name.starts_with("packed_difference.")) return "about 0: perplexity_packed is judged";
  if (name == "bytes.host_peak") return "the peak of the process, whatever cells ran before";
  if (name.ends_with(".max_kl") || name.ends_with(".p99_kl"))
    return "of few tokens, without an error of its own: mean_kl is judged";
  return "";
}

// What metrics on token windows are called: "divergence.c4.mean_kl" is of the dataset c4.
struct WindowMetric {
  std::string evaluator;
  std::string dataset;
};

std::optional<WindowMetric> window_metric(const std::string& name) {
  const std::string divergence = "divergence.";
  for (const std::string prefix : {"perplexity.", "perplexity_packed."})
    if (name.starts_with(prefix)) return WindowMetric{"perplexity", name.substr(prefix.size())};
  if (!name.starts_with(divergence)) return std::nullopt;
  const std::string rest = name.substr(divergence.size());
  return WindowMetric{"divergence", rest.substr(0, rest.rfind('.'))};
}

std::string paired_detail(const PairedDifference& difference, const Metric& metric) {
  const bool loss = metric.name.starts_with("perplexity");
  return (loss ? "loss " : "") + signed_text(difference.mean, 3) + " ± " +
         significant_text(*difference.half_width, 2) +
         (loss                 ? " nats/token"
          : metric.unit == "1" ? ""
                               : " " + metric.unit) +
         " over " + std::to_string(difference.count) + " windows";
}

// One metric of one run before and one now, no time.
void judge_value(const Record& before, const Metric& old, const Record& after, const Metric& now,
                 const CompareOptions& options, MetricChange& change) {
  const auto settle = [&](Change verdict, const std::string& detail) {
    change.change = verdict;
    change.detail = detail;
  };
  const auto scored = window_metric(now.name);
  if (scored && !same_windows(before, after, scored->dataset, scored->evaluator))
    return settle(Change::kNotComparable, "other token windows");
  if (old.value == now.value || (std::isnan(old.value) && std::isnan(now.value)))
    return settle(Change::kSame, "equal");
  if (const std::string reason = no_verdict(now.name); !reason.empty())
    return settle(Change::kNotComparable, reason);
  if (!std::isfinite(old.value) || !std::isfinite(now.value))
    return settle(std::isfinite(old.value) ? Change::kWorse : Change::kBetter, "not finite");

  const double size = std::abs(old.value);
  double allowed = std::max(options.relative_tolerance * size, options.absolute_tolerance);
  if (scored)
    allowed =
        std::max(allowed, scored->evaluator == "perplexity" ? kSmallestLoss * size : kSmallestLoss);
  const double moved = now.value - old.value;
  const double worsening = higher_is_better(now.name) ? -moved : moved;
  std::string detail = size > 0 ? signed_text(100 * moved / size, 3) + " %" : signed_text(moved, 3);
  detail += ", allowed " + significant_text(allowed, 2);
  std::optional<PairedDifference> paired;
  if (scored) paired = paired_difference(now.samples, old.samples);
  const bool judged = paired && paired->half_width;
  if (judged) detail += "; " + paired_detail(*paired, now);
  if (std::abs(worsening) <= allowed) return settle(Change::kSame, detail);
  const bool chance = judged && paired->tie();
  if (worsening < 0) return settle(chance ? Change::kSame : Change::kBetter, detail);
  if (chance && worsening <= kSurely * allowed)
    return settle(Change::kUnclear, detail + ": may be chance");
  settle(Change::kWorse, detail);
}

// The fastest kernel of each problem, in words.
using FastestKernels = std::map<std::string, const KernelRow*>;

FastestKernels fastest_kernels(const Record& record) {
  FastestKernels fastest;
  for (const KernelRow& row : record.kernels) {
    const KernelRow*& best =
        fastest[shape_words(row) + ", M " + std::to_string(row.m) + ", " + weight_words(row) +
                ", " + row.dtype + (row.dense() ? ", dense" : "")];
    if (best == nullptr || row.us < best->us) best = &row;
  }
  return fastest;
}

std::vector<FastestKernels> fastest_kernels(const Runs& runs) {
  std::vector<FastestKernels> all;
  for (const Record* run : runs) all.push_back(fastest_kernels(*run));
  return all;
}

// The repetitions of the fastest kernel in each run that has the problem, and the kernels' names.
TimedSamples kernel_samples(const std::vector<FastestKernels>& runs, const std::string& problem,
                            std::set<std::string>& names) {
  TimedSamples result;
  for (const FastestKernels& fastest : runs) {
    const auto found = fastest.find(problem);
    if (found == fastest.end()) continue;
    const KernelRow& row = *found->second;
    result.push_back(row.samples.empty() ? std::vector<double>{row.us} : row.samples);
    names.insert(row.kernel);
  }
  return result;
}

std::string names_text(const std::set<std::string>& names) {
  return join({names.begin(), names.end()}, "/");
}

TimedSamples metric_samples(const Runs& runs, const std::string& name) {
  TimedSamples result;
  for (const Record* run : runs)
    if (const auto metric = find_metric(*run, name))
      result.push_back(metric->samples.empty() ? std::vector<double>{metric->value}
                                               : metric->samples);
  return result;
}

// All by one device, `first` that of the first run before.
bool on_one_device(const Runs& runs, const Record& first) {
  return std::all_of(runs.begin(), runs.end(), [&](const Record* run) {
    return same_device(run->environment, first.environment);
  });
}

bool any_resumed(const Runs& runs) {
  return std::any_of(runs.begin(), runs.end(),
                     [](const Record* run) { return run->resumed_blocks > 0; });
}

// The verdict that a gate must not overlook stands first.
int severity(Change change) {
  switch (change) {
    case Change::kMissing:
    case Change::kWorse:
    case Change::kSlower:
      return 4;
    case Change::kNotComparable:
      return 3;
    case Change::kUnclear:
      return 2;
    case Change::kSame:
      return 1;
    default:
      return 0;
  }
}

class Comparer {
 public:
  explicit Comparer(const CompareOptions& options) : options_(options) {}

  void cell(const Runs& before, const Runs& after) {
    ++result_.cells;
    if (status(before, after)) return;
    const Runs was = finished(before);
    const Record& first = *was.front();
    const bool comparable = on_one_device(was, first) && on_one_device(after, first);
    for (const Metric& metric : all_metrics(first)) {
      if (is_timed(metric.name))
        time(metric, was, after, comparable);
      else
        value(metric, first, after);
    }
    const std::vector<FastestKernels> kernels_was = fastest_kernels(was);
    const std::vector<FastestKernels> kernels_are = fastest_kernels(after);
    for (const auto& [problem, row] : kernels_was.front())
      kernel(start(*after.front(), "us " + problem), problem, kernels_was, kernels_are, comparable);
  }

  void only(const Runs& runs, bool before) {
    const Runs ok = finished(runs);
    const Record& record = ok.empty() ? *runs.front() : *ok.front();
    MetricChange change = start(record, "status");
    (before ? change.before : change.after) = status_name(record.status);
    if (!before) change.change = Change::kNew;
    // A cell that gave nothing before is nothing lost.
    if (before && record.status == CellStatus::kOk) change.change = Change::kMissing;
    add(std::move(change));
  }

  void runs(const Runs& before, const Runs& after) {
    result_.old_runs = std::max(result_.old_runs, static_cast<int64_t>(before.size()));
    result_.new_runs = std::max(result_.new_runs, static_cast<int64_t>(after.size()));
  }

  Comparison take() { return std::move(result_); }

 private:
  static MetricChange start(const Record& record, const std::string& metric) {
    MetricChange change;
    change.cell_id = record.cell_id;
    change.experiment = record.experiment;
    change.label = cell_label(record);
    change.metric = metric;
    return change;
  }

  void add(MetricChange change) { result_.changes.push_back(std::move(change)); }

  static Runs finished(const Runs& runs) {
    Runs result;
    for (const Record* run : runs)
      if (run->status == CellStatus::kOk) result.push_back(run);
    return result;
  }

  // Whether there is nothing more to compare than which runs ended well.
  bool status(const Runs& before, const Runs& after) {
    const auto bad = std::find_if(after.begin(), after.end(),
                                  [](const Record* run) { return run->status != CellStatus::kOk; });
    const Runs was = finished(before);
    if (!was.empty() && bad == after.end()) return false;
    const Record& now = bad == after.end() ? *after.front() : **bad;
    const Record& then = was.empty() ? *before.front() : *was.front();
    MetricChange change = start(now, "status");
    change.before = status_name(then.status);
    change.after = status_name(now.status);
    change.detail = now.reason;
    if (!was.empty()) change.change = Change::kWorse;
    if (was.empty() && bad == after.end()) change.change = Change::kBetter;
    add(std::move(change));
    return true;
  }

  // The worst of all runs now.
  void value(const Metric& old, const Record& before, const Runs& after) {
    std::optional<MetricChange> worst;
    for (const Record* run : after) {
      MetricChange change = start(*run, old.name);
      change.before = number_text(old.value);
      if (const auto now = find_metric(*run, old.name)) {
        change.after = number_text(now->value);
        judge_value(before, old, *run, *now, options_, change);
      } else {
        change.change = Change::kMissing;
      }
      if (!worst || severity(change.change) > severity(worst->change)) worst = std::move(change);
    }
    add(std::move(*worst));
  }

  void time(const Metric& metric, const Runs& before, const Runs& after, bool comparable) {
    MetricChange change = start(*after.front(), metric.name);
    const TimedSamples was = metric_samples(before, metric.name);
    const TimedSamples is = metric_samples(after, metric.name);
    std::string refusal = no_verdict(metric.name);
    if (refusal.empty() && !comparable) refusal = "another device";
    if (refusal.empty() && is_seconds(metric.name) && (any_resumed(before) || any_resumed(after)))
      refusal = "a resumed run times only its rest";
    judge(was, is, refusal,
          {.threshold = options_.time_threshold,
           .confidence = options_.confidence,
           .smallest = is_seconds(metric.name) ? options_.smallest_seconds : 0,
           .higher_is_better = higher_is_better(metric.name)},
          change);
    add(std::move(change));
  }

  // Times of the fastest kernel on one problem, whichever it is.
  void kernel(MetricChange change, const std::string& problem,
              const std::vector<FastestKernels>& before, const std::vector<FastestKernels>& after,
              bool comparable) {
    std::set<std::string> old_names, new_names;
    const TimedSamples was = kernel_samples(before, problem, old_names);
    const TimedSamples is = kernel_samples(after, problem, new_names);
    judge(was, is, comparable ? "" : "another device",
          {.threshold = options_.time_threshold, .confidence = options_.confidence}, change);
    if (old_names != new_names && !is.empty())
      change.detail += ", " + names_text(old_names) + " before, now " + names_text(new_names);
    add(std::move(change));
  }

  static void judge(const TimedSamples& was, const TimedSamples& is, const std::string& refusal,
                    const TimeOptions& options, MetricChange& change) {
    if (is.empty()) {
      change.change = Change::kMissing;
      return;
    }
    const TimeVerdict verdict = judge_times(was, is, options);
    change.before = significant_text(verdict.before, 4);
    change.after = significant_text(verdict.after, 4);
    change.change = refusal.empty() ? verdict.change : Change::kNotComparable;
    change.detail = refusal.empty() ? verdict.detail : refusal;
  }

  const CompareOptions& options_;
  Comparison result_;
};

// Records of one id, in the order of their ids' first appearance. A record that was copied from
// another folder is the same run.
class Cells {
 public:
  explicit Cells(const std::vector<Record>& records) {
    for (const Record& record : records) {
      Runs& runs = runs_[record.cell_id];
      if (runs.empty()) order_.push_back(record.cell_id);
      const bool known = std::any_of(runs.begin(), runs.end(), [&](const Record* run) {
        return run == &record || same_run(*run, record);
      });
      if (!known) runs.push_back(&record);
    }
  }
  const std::vector<std::string>& order() const { return order_; }
  const Runs* find(const std::string& id) const {
    const auto found = runs_.find(id);
    return found == runs_.end() ? nullptr : &found->second;
  }

 private:
  // Clocks of nanoseconds do not agree by chance.
  static bool same_run(const Record& a, const Record& b) {
    if (a.environment.time != b.environment.time || a.environment.time.empty()) return false;
    return a.seconds == b.seconds && a.kernels.size() == b.kernels.size() &&
           std::equal(a.kernels.begin(), a.kernels.end(), b.kernels.begin(),
                      [](const KernelRow& x, const KernelRow& y) { return x.us == y.us; });
  }

  std::vector<std::string> order_;
  std::map<std::string, Runs> runs_;
};

std::string ran_by(const std::vector<Record>& records) {
  std::set<std::string> lines;
  for (const Record& record : records)
    if (record.status != CellStatus::kSkipped)
      lines.insert(device_line(record.environment) + ", " + version_line(record.environment.build));
  return join({lines.begin(), lines.end()}, "; ");
}

}  // namespace

bool Comparison::tripped() const {
  return std::any_of(changes.begin(), changes.end(),
                     [](const MetricChange& change) { return trips(change.change); });
}

int64_t Comparison::count(Change wanted) const {
  return std::count_if(changes.begin(), changes.end(),
                       [&](const MetricChange& change) { return change.change == wanted; });
}

Comparison compare_records(const std::vector<Record>& before, const std::vector<Record>& after,
                           const CompareOptions& options) {
  const Cells was(before), is(after);
  Comparer comparer(options);
  for (const std::string& id : was.order()) {
    const Runs& then = *was.find(id);
    const Runs* now = is.find(id);
    if (now == nullptr) {
      comparer.only(then, true);
      continue;
    }
    comparer.runs(then, *now);
    comparer.cell(then, *now);
  }
  for (const std::string& id : is.order())
    if (was.find(id) == nullptr) comparer.only(*is.find(id), false);
  Comparison result = comparer.take();
  result.environment = environment_changes(before, after);
  result.before = ran_by(before);
  result.after = ran_by(after);
  return result;
}

}  // namespace gptqb
