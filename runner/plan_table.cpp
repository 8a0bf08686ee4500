// The plan as text, for `gptq-bench plan` and the head of a run.
#include <algorithm>
#include <map>
#include <set>

#include "common/text.h"
#include "runner/plan.h"
#include "runner/schema.h"
#include "runner/short_paths.h"

namespace gptqb {

namespace {

// Keys whose text differs between cells (a key that some cells lack differs too), in the order of
// the schema, which every cell's settings follow.
std::vector<std::string> differing_keys(const std::vector<PlannedCell>& cells) {
  std::vector<std::string> order;
  for (const PlannedCell& planned : cells) {
    auto after = order.begin();
    for (const auto& [key, value] : planned.cell.settings()) {
      const auto known = std::find(order.begin(), order.end(), key);
      after = known == order.end() ? order.insert(after, key) + 1 : known + 1;
    }
  }
  // A key that all cells of some methods share, and the others drop, tells nothing beside the
  // method's name.
  std::vector<std::string> differing;
  for (const std::string& key : order) {
    std::set<std::string> values;
    for (const PlannedCell& planned : cells)
      if (const std::string text = planned.cell.setting(key); !text.empty()) values.insert(text);
    if (values.size() > 1 || key == "method.name") differing.push_back(key);
  }
  return differing;
}

std::string short_key(const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  return section == "method" || section == "quant" ? key.substr(key.find('.') + 1) : key;
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

std::string count(size_t number, const std::string& thing) {
  return std::to_string(number) + " " + thing + (number == 1 ? "" : "s");
}

std::string bound_text(const Expectation& expectation) {
  if (expectation.at_most) return "at most " + value_text(*expectation.at_most);
  if (expectation.at_least) return "at least " + value_text(*expectation.at_least);
  return value_text(expectation.value.value_or(0));
}

struct Counts {
  size_t cells = 0, run = 0, skipped = 0, missing = 0;
  // A cell that two tiers of an experiment have is held against one value.
  std::set<std::string> expected;

  void add(const Plan& plan) {
    for (const PlannedCell& planned : plan.cells) {
      ++cells;
      if (!planned.skip_reason.empty())
        ++skipped;
      else if (!planned.missing.empty())
        ++missing;
      else
        ++run;
      for (const Expectation& each : planned.expectations)
        expected.insert(join({plan.name, planned.cell.id(), each.metric, each.source, each.note,
                              each.variant, bound_text(each)},
                             "\n"));
    }
  }
  std::string text() const {
    std::string result = count(cells, "cell") + ", " + std::to_string(run) + " to run, " +
                         std::to_string(skipped) + " skipped";
    if (missing > 0) result += ", " + std::to_string(missing) + " not run as inputs are missing";
    return result;
  }
  std::string expected_text() const {
    return expected.empty() ? "" : "; " + count(expected.size(), "expected value");
  }
};

std::string outlook(const PlannedCell& planned) {
  if (!planned.skip_reason.empty()) return "skip: " + planned.skip_reason;
  return planned.missing.empty() ? "run" : "not run: inputs are missing";
}

// "perplexity.wikitext2 27.65, ...": the published values of a cell. Long lists are counted.
std::string expected_values(const PlannedCell& planned) {
  constexpr size_t kShown = 4;
  std::vector<std::string> values;
  for (const Expectation& expectation : planned.expectations)
    values.push_back(expectation.metric + " " + bound_text(expectation));
  return values.size() > kShown ? count(values.size(), "value") : join(values, ", ");
}

}  // namespace

std::string plan_table(const Plan& plan) {
  const std::vector<std::string> keys = differing_keys(plan.cells);
  std::set<std::string> paths;
  for (const PlannedCell& planned : plan.cells) paths.insert(planned.cell.setting("model.path"));
  const std::map<std::string, std::string> models = short_paths(paths);
  std::vector<std::vector<std::string>> rows = {{"cell"}};
  for (const std::string& key : keys)
    rows[0].push_back(key == "method.name" ? "method" : short_key(key));
  Counts counts;
  counts.add(plan);
  if (!counts.expected.empty()) rows[0].push_back("expected");
  rows[0].push_back("plan");
  for (const PlannedCell& planned : plan.cells) {
    rows.push_back({planned.cell.id()});
    for (const std::string& key : keys) {
      std::string text = planned.cell.setting(key);
      if (key == "model.path") text = models.at(text);
      rows.back().push_back(text.empty() ? "-" : text);
    }
    if (!counts.expected.empty())
      rows.back().push_back(planned.expectations.empty() ? "-" : expected_values(planned));
    rows.back().push_back(outlook(planned));
  }
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());

  std::string text = plan.name + " (" + plan.file + ", tier " + plan.tier + "): " + counts.text();
  if (plan.merged > 0) text += ", " + std::to_string(plan.merged) + " merged with an equal one";
  if (plan.excluded > 0) text += ", " + std::to_string(plan.excluded) + " excluded";
  if (plan.other_shards > 0) text += ", " + std::to_string(plan.other_shards) + " in other shards";
  text += counts.expected_text() + "\n";
  for (const std::string& note : plan.notes) text += "note: " + note + "\n";
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += "  " + padded(row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string plan_totals(const std::vector<Plan>& plans) {
  Counts counts;
  for (const Plan& plan : plans) counts.add(plan);
  return "total: " + count(plans.size(), "experiment") + ", " + counts.text() +
         counts.expected_text() + "\n";
}

}  // namespace gptqb
