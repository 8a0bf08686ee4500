#include "runner/expect_reader.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "common/text.h"
#include "runner/metric_kind.h"
#include "runner/plain_values.h"
#include "runner/schema.h"

namespace gptqb {

namespace {

using Row = std::vector<std::optional<double>>;

// Numbers and, where `gaps`, nulls between them.
Row numbers(const std::string& key, const YamlNode& node, double min, bool gaps, Faults& faults) {
  Row row;
  if (!node.is_list() || node.items.empty()) {
    faults.add(node.position, key, "expected a list of numbers, got " + node.describe());
    return row;
  }
  for (const YamlNode& item : node.items) {
    const bool gap = gaps && item.kind == YamlNode::Kind::kNull;
    row.push_back(gap ? std::nullopt : read_number(key, item, min, faults));
  }
  return row;
}

class Entry {
 public:
  Entry(const YamlNode& node, const ReadSettings& read_where, Faults& faults)
      : node_(node), faults_(faults) {
    expectation_.position = node.position;
    const double any = -std::numeric_limits<double>::infinity();
    for (const YamlEntry& entry : node.entries) {
      const std::string key = "expect." + entry.key;
      if (entry.key == "where")
        read_where(entry.value, where_);
      else if (entry.key == "metric")
        expectation_.metric = read_text(key, entry.value, faults);
      else if (entry.key == "value")
        expectation_.value = read_number(key, entry.value, any, faults);
      else if (entry.key == "along")
        along_ = read_text(key, entry.value, faults);
      else if (entry.key == "values")
        values_ = numbers(key, entry.value, any, true, faults);
      else if (entry.key == "tolerance")
        read_tolerance(entry.value);
      else if (entry.key == "at_most")
        expectation_.at_most = read_number(key, entry.value, any, faults);
      else if (entry.key == "at_least")
        expectation_.at_least = read_number(key, entry.value, any, faults);
      else if (entry.key == "source")
        expectation_.source = read_text(key, entry.value, faults);
      else if (entry.key == "confidence")
        expectation_.confidence = read_text(key, entry.value, faults);
      else if (entry.key == "note")
        expectation_.note = read_text(key, entry.value, faults);
      else if (entry.key == "variant")
        expectation_.variant = read_text(key, entry.value, faults);
      else
        faults.add(entry.position, key, unknown_name(entry.key, kKeys));
    }
    check();
  }

  // One expectation, or one for each number of the row.
  void add_to(Experiment& out) {
    if (!has("values")) return add(where_, expectation_, out);
    const auto swept = std::find_if(out.sweep.begin(), out.sweep.end(),
                                    [&](const auto& axis) { return axis.first == along_; });
    if (swept == out.sweep.end())
      return faults_.add(node_.position, "expect.along",
                         "expected a key of `sweep` along which the values stand, got " +
                             (along_.empty() ? "none" : "'" + along_ + "'"));
    if (values_.size() != swept->second.size())
      return faults_.add(node_.position, "expect.values",
                         "expected a value, or null, for each of the " +
                             std::to_string(swept->second.size()) + " values of " + along_ +
                             ", got " + std::to_string(values_.size()));
    if (tolerances_.size() > 1 && tolerances_.size() != values_.size())
      return faults_.add(node_.position, "expect.tolerance",
                         "expected one number, or one for each of the " +
                             std::to_string(values_.size()) + " values, got " +
                             std::to_string(tolerances_.size()));
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!values_[i]) continue;
      Settings where = where_;
      where[along_] = swept->second[i];
      Expectation expectation = expectation_;
      expectation.value = values_[i];
      if (tolerances_.size() > 1) set_tolerance(tolerances_[i], expectation);
      add(where, expectation, out);
    }
  }

 private:
  inline static const std::vector<std::string> kKeys = {
      "where",   "metric",   "value",  "along",      "values", "tolerance",
      "at_most", "at_least", "source", "confidence", "note",   "variant"};

  bool has(const char* key) const { return node_.find(key) != nullptr; }

  void set_tolerance(const std::optional<double>& tolerance, Expectation& expectation) const {
    (relative_ ? expectation.tolerance_relative : expectation.tolerance_absolute) = tolerance;
  }

  void read_tolerance(const YamlNode& node) {
    if (!node.is_map() || node.entries.size() != 1) {
      faults_.add(
          node.position, "expect.tolerance",
          "expected {absolute: X} or {relative: X}, got " +
              (node.is_map() ? std::to_string(node.entries.size()) + " keys" : node.describe()));
      return;
    }
    const YamlEntry& entry = node.entries[0];
    const std::string key = "expect.tolerance." + entry.key;
    if (entry.key != "absolute" && entry.key != "relative") {
      faults_.add(entry.position, key, unknown_name(entry.key, {"absolute", "relative"}));
      return;
    }
    relative_ = entry.key == "relative";
    tolerances_ = entry.value.is_list() ? numbers(key, entry.value, 0, false, faults_)
                                        : Row{read_number(key, entry.value, 0, faults_)};
    if (tolerances_.size() == 1) set_tolerance(tolerances_[0], expectation_);
  }

  void check() {
    if (!has("metric")) faults_.add(node_.position, "expect", "expected a `metric`, got none");
    const int ways = has("value") + has("values") + has("at_most") + has("at_least");
    if (ways != 1)
      faults_.add(node_.position, "expect",
                  "expected one of value, values, at_most and at_least; got " +
                      std::to_string(ways) + " of them");
    const bool value = has("value") || has("values");
    if (has("along") && !has("values"))
      faults_.add(node_.position, "expect.along",
                  "expected `along` only beside `values`, got it alone");
    const bool tolerance = has("tolerance");
    // A published time gets a ratio and no verdict.
    const bool time = is_time(expectation_.metric) && !tolerance;
    if (ways == 1 && !time && value != tolerance)
      faults_.add(
          node_.position, "expect",
          tolerance
              ? "expected a `tolerance` only beside `value`, got one beside a bound"
              : "expected a `tolerance` beside `value`, got none. Add tolerance: {absolute: X} "
                "or {relative: X}");
  }

  static void add(const Settings& where, Expectation expectation, Experiment& out) {
    std::vector<std::string> parts;
    for (const auto& [key, setting] : where)
      parts.push_back(key + ": " + value_text(setting.value));
    expectation.where = join(parts, ", ");
    out.expect.emplace_back(where, std::move(expectation));
  }

  const YamlNode& node_;
  Faults& faults_;
  Settings where_;
  Expectation expectation_;
  std::string along_;
  Row values_;
  Row tolerances_;  // one, or one for each of `values_`
  bool relative_ = false;
};

}  // namespace

void read_expectation(const YamlNode& node, const ReadSettings& read_where, Faults& faults,
                      Experiment& out) {
  if (!node.is_map()) {
    faults.add(node.position, "expect",
               "expected {where, metric, value, tolerance, source}, got " + node.describe());
    return;
  }
  Entry(node, read_where, faults).add_to(out);
}

}  // namespace gptqb
