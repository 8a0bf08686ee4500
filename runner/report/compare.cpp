#include "runner/report/compare.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "runner/report/baseline.h"
#include "runner/report/kernel_words.h"
#include "runner/report/number_format.h"
#include "runner/report/settings_summary.h"

namespace gptqb {
namespace {

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() &&
         text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool is_time(const std::string& name) {
  return starts_with(name, "seconds.") || starts_with(name, "busy_seconds.") ||
         starts_with(name, "decode.");
}

// What a device reached in a run: as noisy as a time, and of that device.
bool is_rate(const std::string& name) { return starts_with(name, "kernels."); }

bool higher_is_better(const std::string& name) {
  for (const char* suffix : {"tokens_per_second", "bandwidth_share", "top1_agreement", "gb_per_s",
                             "tflop_per_s", "accuracy", "right_token_probability_change"})
    if (ends_with(name, suffix)) return true;
  return false;
}

bool same_device(const Record& a, const Record& b) {
  return a.environment.device == b.environment.device && a.environment.gpu == b.environment.gpu &&
         a.environment.cpu == b.environment.cpu && a.environment.threads == b.environment.threads;
}

// By problem, in words.
std::map<std::string, const KernelRow*> fastest_kernels(const Record& record) {
  std::map<std::string, const KernelRow*> fastest;
  for (const KernelRow& row : record.kernels) {
    const KernelRow*& best =
        fastest[shape_words(row) + ", M " + std::to_string(row.m) + ", " + weight_words(row) +
                ", " + row.dtype + (row.dense() ? ", dense" : "")];
    if (best == nullptr || row.us < best->us) best = &row;
  }
  return fastest;
}

// What metrics on token windows are called: "divergence.c4.mean_kl" is of the dataset c4.
struct WindowMetric {
  std::string evaluator;
  std::string dataset;
};

std::optional<WindowMetric> window_metric(const std::string& name) {
  const std::string perplexity = "perplexity.";
  const std::string divergence = "divergence.";
  if (starts_with(name, perplexity))
    return WindowMetric{"perplexity", name.substr(perplexity.size())};
  if (!starts_with(name, divergence)) return std::nullopt;
  const std::string rest = name.substr(divergence.size());
  return WindowMetric{"divergence", rest.substr(0, rest.rfind('.'))};
}

Change by_sign(double worsening) { return worsening > 0 ? Change::kWorse : Change::kBetter; }

// The samples of a perplexity are losses.
void judge_paired(const PairedDifference& difference, const Metric& metric,
                  const CompareOptions& options, MetricChange& change) {
  const bool loss = starts_with(metric.name, "perplexity.");
  change.detail = (loss ? "loss " : "") + signed_text(difference.mean, 3) + " ± " +
                  significant_text(*difference.half_width, 2) +
                  (loss                 ? " nats/token"
                   : metric.unit == "1" ? ""
                                        : " " + metric.unit) +
                  " over " + std::to_string(difference.count) + " windows";
  const bool noise = difference.tie() || std::abs(difference.mean) < options.smallest_loss;
  const double worsening = higher_is_better(metric.name) ? -difference.mean : difference.mean;
  change.change = noise ? Change::kSame : by_sign(worsening);
}

// A change is noise within `threshold` (a share) or within `smallest` (in the metric's unit).
void judge_relative(const Metric& before, const Metric& after, double threshold, double smallest,
                    MetricChange& change) {
  if (before.value == after.value || (std::isnan(before.value) && std::isnan(after.value))) {
    change.detail = "equal";
    return;
  }
  if (!std::isfinite(before.value) || !std::isfinite(after.value)) {
    change.detail = "not finite";
    change.change = std::isfinite(before.value) ? Change::kWorse : Change::kBetter;
    return;
  }
  const double relative = (after.value - before.value) / std::max(std::abs(before.value), 1e-300);
  change.detail = signed_text(100 * relative, 3) + " %, noise up to " +
                  significant_text(100 * threshold, 2) + " %";
  if (std::abs(relative) <= threshold || std::abs(after.value - before.value) <= smallest) return;
  change.change = by_sign(higher_is_better(after.name) ? -relative : relative);
}

class Comparer {
 public:
  explicit Comparer(const CompareOptions& options) : options_(options) {}

  void cell(const Record& before, const Record& after) {
    ++result_.cells;
    if (before.status != CellStatus::kOk || after.status != CellStatus::kOk) {
      status(before, after);
      return;
    }
    for (const Metric& metric : all_metrics(before)) {
      MetricChange change = start(after, metric.name);
      change.before = number_text(metric.value);
      if (const auto now = find_metric(after, metric.name)) {
        change.after = number_text(now->value);
        compare(before, metric, after, *now, change);
      } else {
        change.change = Change::kMissing;
      }
      result_.changes.push_back(std::move(change));
    }
    const auto now = fastest_kernels(after);
    for (const auto& [problem, row] : fastest_kernels(before)) {
      const auto found = now.find(problem);
      kernel(before, *row, after, found == now.end() ? nullptr : found->second, problem);
    }
  }

  void only(const Record& record, bool before) {
    MetricChange change = start(record, "status");
    (before ? change.before : change.after) = status_name(record.status);
    if (!before) change.change = Change::kNew;
    // A cell that gave nothing before is nothing lost.
    if (before && record.status == CellStatus::kOk) change.change = Change::kMissing;
    result_.changes.push_back(std::move(change));
  }

  Comparison take() { return std::move(result_); }

 private:
  static MetricChange start(const Record& record, const std::string& metric) {
    MetricChange change;
    change.cell_id = record.cell_id;
    change.label = cell_label(record);
    change.metric = metric;
    return change;
  }

  // Times of the fastest kernel on one problem, whichever it is.
  void kernel(const Record& before, const KernelRow& old, const Record& after, const KernelRow* now,
              const std::string& problem) {
    MetricChange change = start(after, "us " + problem);
    change.before = number_text(old.us);
    if (now == nullptr) {
      change.change = Change::kMissing;
    } else if (!same_device(before, after)) {
      change.change = Change::kNotComparable;
      change.detail = "another device";
    } else {
      change.after = number_text(now->us);
      Metric was, is;
      was.value = old.us;
      is.value = now->us;
      judge_relative(was, is, options_.time_threshold, 0, change);
      if (old.kernel != now->kernel)
        change.detail += ", " + old.kernel + " before, now " + now->kernel;
    }
    result_.changes.push_back(std::move(change));
  }

  void status(const Record& before, const Record& after) {
    MetricChange change = start(after, "status");
    change.before = status_name(before.status);
    change.after = status_name(after.status);
    change.detail = after.reason;
    if (before.status == CellStatus::kOk) change.change = Change::kWorse;
    if (before.status != CellStatus::kOk && after.status == CellStatus::kOk)
      change.change = Change::kBetter;
    result_.changes.push_back(std::move(change));
  }

  void compare(const Record& before, const Metric& old, const Record& after, const Metric& now,
               MetricChange& change) const {
    if (const auto scored = window_metric(now.name)) {
      if (!same_windows(before, after, scored->dataset, scored->evaluator)) {
        change.change = Change::kNotComparable;
        change.detail = "other token windows";
        return;
      }
      const auto difference = paired_difference(now.samples, old.samples);
      if (difference && difference->half_width)
        return judge_paired(*difference, now, options_, change);
    }
    const auto incomparable = [&](const std::string& why) {
      change.change = Change::kNotComparable;
      change.detail = why;
    };
    const bool timed = is_time(now.name) || is_rate(now.name);
    if (timed && !same_device(before, after)) return incomparable("another device");
    if (is_time(now.name) && (before.resumed_blocks > 0 || after.resumed_blocks > 0))
      return incomparable("a resumed run times only its rest");
    if (now.name == "bytes.host_peak" || now.name == "bytes.host_planned")
      return incomparable("the peak of the process, whatever cells ran before");
    judge_relative(old, now, timed ? options_.time_threshold : options_.relative_threshold,
                   is_time(now.name) ? options_.smallest_seconds : 0, change);
  }

  const CompareOptions& options_;
  Comparison result_;
};

}  // namespace

const char* change_name(Change change) {
  switch (change) {
    case Change::kSame:
      return "same";
    case Change::kBetter:
      return "better";
    case Change::kWorse:
      return "WORSE";
    case Change::kMissing:
      return "MISSING";
    case Change::kNew:
      return "new";
    case Change::kNotComparable:
      return "not comparable";
  }
  return "";
}

bool Comparison::tripped() const {
  return std::any_of(changes.begin(), changes.end(), [](const MetricChange& change) {
    return change.change == Change::kWorse || change.change == Change::kMissing;
  });
}

Comparison compare_records(const std::vector<Record>& before, const std::vector<Record>& after,
                           const CompareOptions& options) {
  std::map<std::string, const Record*> now;
  for (const Record& record : after) now[record.cell_id] = &record;
  std::map<std::string, bool> known;
  Comparer comparer(options);
  for (const Record& record : before) {
    known[record.cell_id] = true;
    const auto found = now.find(record.cell_id);
    if (found == now.end())
      comparer.only(record, true);
    else
      comparer.cell(record, *found->second);
  }
  for (const Record& record : after)
    if (!known.contains(record.cell_id)) comparer.only(record, false);
  return comparer.take();
}

}  // namespace gptqb
