#include "runner/plan.h"

#include <algorithm>
#include <set>

#include "common/text.h"
#include "runner/claim.h"
#include "runner/decode_cell.h"
#include "runner/kernel_settings.h"
#include "runner/resolve.h"
#include "runner/schema.h"
#include "runner/shard.h"

namespace gptqb {

namespace {

using nlohmann::json;

void put(Settings& target, const Settings& source) {
  for (const auto& [key, setting] : source)
    if (find_key(key)->scope == Scope::kCell) target[key] = setting;
}

// Every combination of cells, sweep and seeds; the last key of the sweep changes fastest, seeds
// fastest of all. Without what --set says.
std::vector<Settings> combinations(const Experiment& experiment) {
  std::vector<Settings> result;
  std::vector<Settings> starts = experiment.cells;
  if (starts.empty()) starts.emplace_back();
  for (const Settings& start : starts) {
    Settings first;
    put(first, experiment.base);
    put(first, start);
    std::vector<Settings> grown = {first};
    auto axes = experiment.sweep;
    if (!experiment.seeds.empty()) axes.emplace_back("calibration.seed", experiment.seeds);
    for (const auto& [key, values] : axes) {
      std::vector<Settings> next;
      for (const Settings& settings : grown)
        for (const Setting& value : values) {
          next.push_back(settings);
          next.back()[key] = value;
        }
      grown = std::move(next);
    }
    result.insert(result.end(), grown.begin(), grown.end());
  }
  return result;
}

// How --set changed what the cell `now` is calibrated and scored on against the file's own
// settings;
// "" if it did not.
std::string changed_data(const Settings& stated, const Values& now) {
  Faults ignored;
  const Values before = with_defaults(stated, ignored);
  std::vector<std::string> changes;
  for (const auto& [key, value] : now) {
    const bool data = key.starts_with("evaluate.") || key.starts_with("calibration.");
    if (!data || key.ends_with(".batch")) continue;
    const auto old = before.find(key);
    if (old == before.end() || old->second != value)
      changes.push_back(key + " = " + value_text(value));
  }
  return changes.empty() ? "" : "under --set, " + join(changes, ", ");
}

bool matches(const Settings& where, const Values& values) {
  for (const auto& [key, wanted] : where) {
    const auto found = values.find(key);
    if (found == values.end() || found->second != wanted.value) return false;
  }
  return true;
}

std::string where_text(const Settings& where) {
  std::vector<std::string> parts;
  for (const auto& [key, setting] : where) parts.push_back(key + ": " + value_text(setting.value));
  return parts.empty() ? "every cell" : join(parts, ", ");
}

// Why `where` matches no cell, as far as it can be told.
std::string nearest_miss(const Settings& where, const std::vector<Values>& cells) {
  for (const auto& [key, wanted] : where) {
    std::set<std::string> known;
    for (const Values& cell : cells)
      if (const auto found = cell.find(key); found != cell.end())
        known.insert(value_text(found->second));
    if (known.empty())
      return ". No cell has " + key + " (a method drops the keys that it does not use)";
    if (known.count(value_text(wanted.value)) == 0)
      return ". Cells have " + key + " " + join({known.begin(), known.end()}, ", ");
  }
  return ". Each value occurs, but not in one cell";
}

// Names of the metrics that an evaluator on texts or tasks gives in this cell.
std::vector<std::string> metrics_of_evaluator(const std::string& evaluator, const Values& cell) {
  static const std::vector<std::string> kPerplexity = {""};
  static const std::vector<std::string> kDivergence = {
      ".mean_kl", ".p99_kl", ".max_kl", ".top1_agreement", ".right_token_probability_change"};
  std::vector<std::string> names;
  const auto tasks = cell.find("evaluate." + evaluator + ".tasks");
  if (tasks != cell.end())
    for (const json& task : tasks->second)
      names.push_back(evaluator + "." + task.get<std::string>());
  const auto datasets = cell.find("evaluate." + evaluator + ".datasets");
  if (datasets == cell.end()) return names;
  for (const json& dataset : datasets->second)
    for (const std::string& end : evaluator == "divergence" ? kDivergence : kPerplexity)
      names.push_back(
          evaluator + "." +
          (dataset.is_string() ? dataset.get<std::string>() : dataset["name"].get<std::string>()) +
          end);
  return names;
}

// Those of decode_latency.
std::vector<std::string> metrics_of_decoding(const Values& cell) {
  const auto batch = cell.find("evaluate.decode_latency.batch");
  if (batch == cell.end()) return {};
  std::vector<std::string> names = {"decode.read_gb_per_s"};
  if (cell.at("evaluate.decode_latency.perplexity") == true) names.push_back("decode.perplexity");
  const json batches = batch->second.is_array() ? batch->second : json::array({batch->second});
  for (const json& each : batches)
    for (const char* end :
         {"ms_per_token", "ms_per_token_p10", "ms_per_token_p90", "ms_first_token",
          "ms_per_token_extrapolated", "tokens_per_second", "bandwidth_share", "bytes_per_token",
          "bytes_weights", "bytes_cache", "bytes_activations", "checked_tokens"})
      names.push_back("decode.batch" + value_text(each) + "." + end);
  return names;
}

// Metrics a cell can have, as far as names are fixed before it runs; "" if `metric` can be one of
// them.
std::string unknown_metric(const std::string& metric, const Values& cell) {
  static const std::vector<std::string> kFamilies = {
      "perplexity.", "seconds.",  "busy_seconds.", "bytes.", "bits_per_weight.",
      "divergence.", "accuracy.", "decode.",       "layer."};
  for (const std::string& family : kFamilies) {
    if (metric.compare(0, family.size(), family) != 0 || metric.size() == family.size()) continue;
    const bool decoding = family == "decode.";
    if (!decoding && family != "perplexity." && family != "divergence." && family != "accuracy.")
      return "";
    const std::string evaluator = decoding ? "decode_latency" : family.substr(0, family.size() - 1);
    const std::vector<std::string> labels =
        decoding ? metrics_of_decoding(cell) : metrics_of_evaluator(evaluator, cell);
    if (std::find(labels.begin(), labels.end(), metric) != labels.end()) return "";
    if (labels.empty())
      return "expected a metric of the cell, got '" + metric + "', but it evaluates no " +
             evaluator;
    return unknown_name(metric, labels);
  }
  return "expected a metric that starts with " + join(kFamilies, ", ") + "; got '" + metric + "'";
}

class Planner {
 public:
  Planner(const Experiment& experiment, const PlanOptions& options)
      : experiment_(experiment), options_(options) {}

  Plan plan() {
    Plan result;
    result.name = experiment_.name;
    result.tier = experiment_.tier;
    result.file = experiment_.file;
    if (const auto resume = experiment_.base.find("resume"); resume != experiment_.base.end())
      result.resume = resume->second.value.get<bool>();
    result.limits = {limit("limits.device_memory"), limit("limits.host_memory")};
    result.executor = executor_settings(experiment_.base, faults_);
    if (const auto dump = experiment_.base.find("dump"); dump != experiment_.base.end())
      for (const json& what : dump->second.value)
        if (what == "hessians") result.dump_hessians = true;
    if (has_cells()) add_cells(result);
    check_expectations(result);
    check_claim(result);
    add_save(result);
    const Values kernels = kernel_values(experiment_.base, faults_);
    faults_.raise(experiment_.file);
    for (size_t i = 0; i < values_.size(); ++i) add_planned(result, i);
    if (!kernels.empty())
      result.cells.push_back(
          {Cell::from_json(json(kernels).dump()), skip_reason({}, experiment_.base, {}, {}), {}});
    check_save(result);
    faults_.raise(experiment_.file);
    for (size_t i = 0; i < result.cells.size(); ++i)
      result.cells[i].position = static_cast<int64_t>(i);
    take_shard(result, options_.shard, options_.shards);
    return result;
  }

 private:
  // GiB in bytes; empty for `all`.
  std::optional<int64_t> limit(const std::string& key) const {
    const auto found = experiment_.base.find(key);
    if (found == experiment_.base.end() || !found->second.value.is_number()) return std::nullopt;
    return static_cast<int64_t>(found->second.value.get<double>() * (int64_t{1} << 30));
  }

  // A file may ask for kernels alone.
  bool has_cells() const {
    if (!experiment_.cells.empty() || !experiment_.sweep.empty()) return true;
    return experiment_.base.count("method.name") > 0 || experiment_.forced.count("method.name") > 0;
  }

  void add_cells(Plan& result) {
    std::vector<bool> used(experiment_.exclude.size(), false);
    std::set<std::string> seen;
    for (const Settings& stated : combinations(experiment_)) {
      Settings settings = stated;
      put(settings, experiment_.forced);
      const Values full = with_defaults(settings, faults_);
      if (const auto rules = settings.find("overrides");
          rules != settings.end() && !rules->second.value.empty())
        rules_ = rules->second;
      bool excluded = false;
      for (size_t i = 0; i < used.size(); ++i) {
        if (!matches(experiment_.exclude[i].first, full)) continue;
        used[i] = true;
        excluded = true;
      }
      if (excluded) {
        ++result.excluded;
        continue;
      }
      check_together(settings, full, faults_);
      const Values values = identity(full);
      if (!seen.insert(json(values).dump()).second) {
        ++result.merged;
        continue;
      }
      values_.push_back(values);
      changes_.push_back(experiment_.forced.empty() ? "" : changed_data(stated, values));
    }
    for (size_t i = 0; i < used.size(); ++i) {
      if (used[i]) continue;
      const std::string what = where_text(experiment_.exclude[i].first);
      if (experiment_.forced.empty())
        faults_.add(experiment_.exclude[i].second, "exclude",
                    "expected cells to leave out, got none that match " + what);
      else
        result.notes.push_back("exclude " + what + " matches no cell under --set");
    }
    if (values_.empty() && faults_.empty())
      faults_.add(experiment_.start, "exclude",
                  "expected at least one cell, got none: `exclude` leaves out all of them");
    check_overrides(result);
  }

  // A dense cell beside others drops the rules, as it drops `quant`. If no cell keeps them, they
  // were meant for a method that is not there.
  void check_overrides(Plan& result) {
    const auto dropped = [](const Values& values) { return values.count("overrides") == 0; };
    if (rules_.value.is_null() || !std::all_of(values_.begin(), values_.end(), dropped)) return;
    if (experiment_.forced.empty())
      faults_.add(rules_.position, "overrides",
                  "expected a method that quantizes beside the rules, got only none, which leaves "
                  "every layer dense. Add one to method.name, or leave the rules out");
    else
      result.notes.push_back(
          "overrides change nothing: under --set every cell is dense (method none)");
  }

  // Every entry must be able to get a verdict; under --set cells may have moved away from it, which
  // is a note, or be of other data, which the verdict says.
  void check_expectations(Plan& result) {
    expectations_.resize(values_.size());
    int64_t idle = 0;
    for (const auto& [where, expectation] : experiment_.expect) {
      bool matched = false;
      for (size_t i = 0; i < values_.size(); ++i) {
        if (!matches(where, values_[i])) continue;
        matched = true;
        const std::string fault = unknown_metric(expectation.metric, values_[i]);
        const bool other_data = expectation.value && !changes_[i].empty();
        if (fault.empty() || other_data) expectations_[i].push_back(expectation);
        if (other_data && expectation.variant.empty())
          expectations_[i].back().variant = changes_[i];
        if (fault.empty() || other_data) continue;
        if (experiment_.forced.empty())
          faults_.add(expectation.position, "expect.metric", fault);
        else
          matched = false;
      }
      if (matched) continue;
      if (experiment_.forced.empty())
        faults_.add(expectation.position, "expect.where",
                    "expected cells for " + expectation.metric + ", got none that match " +
                        where_text(where) + nearest_miss(where, values_));
      ++idle;
    }
    if (idle > 0 && !experiment_.forced.empty())
      result.notes.push_back(
          std::to_string(idle) + " of " + std::to_string(experiment_.expect.size()) +
          " expected values belong to cells that --set has changed; they get no verdict");
  }

  // Each comparison must have cells on both sides, of which the metric can be told.
  void check_claim(Plan& result) {
    result.claim.statement = experiment_.statement;
    std::vector<CellSettings> cells;
    for (const Values& values : values_) {
      CellSettings settings;
      for (const auto& [key, value] : values) settings[key] = value_text(value);
      cells.push_back(completed(std::move(settings)));
    }
    for (const ClaimSettings& each : experiment_.claim) {
      const auto pairs = pairs_of(each.part, cells);
      std::string fault;
      if (pairs.empty())
        fault = "expected cells to compare, got none with " + where_text(each.of) +
                " beside cells with " + where_text(each.against) +
                " that differ in nothing else (a method drops the keys that it does not use)";
      else
        for (const size_t cell : {pairs[0].first, pairs[0].second})
          if (fault.empty()) fault = unknown_metric(each.part.metric, values_[cell]);
      if (fault.empty())
        result.claim.parts.push_back(each.part);
      else if (experiment_.forced.empty())
        faults_.add(each.position, "claim.parts", fault);
      else
        result.notes.push_back("under --set a comparison of the claim is left out: " + fault);
    }
  }

  void add_planned(Plan& result, size_t index) {
    const Values& values = values_[index];
    const Cell cell = Cell::from_json(json(values).dump());
    std::string reason =
        skip_reason(values, experiment_.base, options_.methods, options_.evaluators);
    if (reason.empty()) reason = decode_refusal(cell);
    result.cells.push_back({cell, reason, expectations_[index]});
  }

  void add_save(Plan& result) {
    const auto value = [&](const char* key) {
      const auto found = experiment_.base.find(key);
      return found == experiment_.base.end() ? nullptr : &found->second;
    };
    const Setting* path = value("save.path");
    if (path == nullptr) {
      for (const char* key : {"save.format", "save.shard_size"})
        if (const Setting* other = value(key))
          faults_.add(other->position, key, "expected save.path beside it, got none");
      return;
    }
    SaveSettings& save = result.save.emplace();
    save.path = expand_variables(path->value.get<std::string>());
    if (const Setting* format = value("save.format"))
      save.format = format->value == "gptq" ? PackedFormat::kGptq : PackedFormat::kGptqV2;
    if (const Setting* gigabytes = value("save.shard_size"))
      save.shard_bytes = static_cast<int64_t>(gigabytes->value.get<double>() * 1e9);
  }

  // Before any work: a checkpoint that cannot be written is no reason to quantize for hours.
  void check_save(Plan& result) {
    if (!result.save) return;
    int64_t saved = 0;
    std::set<std::string> reasons;
    for (const PlannedCell& planned : result.cells) {
      saved += !planned.cell.dense() && !planned.cell.measures_kernels();
      if (const std::string reason = save_refusal(*result.save, planned.cell); !reason.empty())
        reasons.insert(reason);
    }
    const Position position = experiment_.base.at("save.path").position;
    for (const std::string& reason : reasons) faults_.add(position, "save", reason);
    if (saved == 0)
      faults_.add(position, "save", "expected a method that quantizes, got no cell to save");
    result.save->folder_per_cell = saved > 1;
  }

  const Experiment& experiment_;
  const PlanOptions& options_;
  Faults faults_;
  Setting rules_;                     // `overrides` of some cell; null: none has any
  std::vector<Values> values_;        // of each cell, duplicates merged
  std::vector<std::string> changes_;  // of each: changed_data(), if there is a --set
  std::vector<std::vector<Expectation>> expectations_;
};

}  // namespace

Plan make_plan(const Experiment& experiment, const PlanOptions& options) {
  if (options.shards < 1 || options.shard < 0 || options.shard >= options.shards)
    throw Error("--shard", "expected a shard from 0 to " + std::to_string(options.shards - 1) +
                               ", got " + std::to_string(options.shard));
  return Planner(experiment, options).plan();
}

}  // namespace gptqb
