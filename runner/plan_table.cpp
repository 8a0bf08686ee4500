// The plan as text, for `gptq-bench plan` and the head of a run.
#include <algorithm>
#include <map>
#include <set>

#include "common/text.h"
#include "runner/plan.h"

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

}  // namespace

std::string plan_table(const Plan& plan) {
  const std::vector<std::string> keys = differing_keys(plan.cells);
  std::vector<std::vector<std::string>> rows = {{"cell"}};
  for (const std::string& key : keys)
    rows[0].push_back(key == "method.name" ? "method" : short_key(key));
  rows[0].push_back("plan");
  size_t runs = 0, expectations = 0;
  for (const PlannedCell& planned : plan.cells) {
    rows.push_back({planned.cell.id()});
    for (const std::string& key : keys) {
      const std::string text = planned.cell.setting(key);
      rows.back().push_back(text.empty() ? "-" : text);
    }
    rows.back().push_back(planned.skip_reason.empty() ? "run" : "skip: " + planned.skip_reason);
    runs += planned.skip_reason.empty();
    expectations += planned.expectations.size();
  }
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());

  std::string text = plan.name + " (" + plan.file + ", tier " + plan.tier +
                     "): " + count(plan.cells.size(), "cell") + ", " + std::to_string(runs) +
                     " to run, " + std::to_string(plan.cells.size() - runs) + " skipped";
  if (plan.merged > 0) text += ", " + std::to_string(plan.merged) + " merged with an equal one";
  if (plan.excluded > 0) text += ", " + std::to_string(plan.excluded) + " excluded";
  if (plan.other_shards > 0) text += ", " + std::to_string(plan.other_shards) + " in other shards";
  if (expectations > 0) text += "; " + count(expectations, "expected value");
  text += "\n";
  for (const std::string& note : plan.notes) text += "note: " + note + "\n";
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) line += "  " + padded(row[i], widths[i]);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace gptqb
