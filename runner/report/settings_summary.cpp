#include "runner/report/settings_summary.h"

#include <algorithm>
#include <map>
#include <set>

#include "runner/short_paths.h"

namespace gptqb {
namespace {

struct Seen {
  std::vector<std::string> order;
  std::map<std::string, std::set<std::string>> values;
};

Seen collect(const std::vector<const Record*>& records) {
  Seen seen;
  for (const Record* record : records) {
    for (const auto& [key, text] : record->settings) {
      if (!seen.values.contains(key)) seen.order.push_back(key);
      seen.values[key].insert(text);
    }
  }
  return seen;
}

// Whether a method has cells with and without the key: absent is then a value of its own.
bool some_lack(const std::vector<const Record*>& records, const std::string& key) {
  std::map<std::string, std::set<bool>> has;
  for (const Record* record : records)
    has[record->setting("method.name")].insert(!record->setting(key).empty());
  return std::any_of(has.begin(), has.end(), [](const auto& one) { return one.second.size() > 1; });
}

}  // namespace

std::vector<std::string> varying_settings(const std::vector<const Record*>& records) {
  const Seen seen = collect(records);
  std::vector<std::string> result;
  std::copy_if(seen.order.begin(), seen.order.end(), std::back_inserter(result),
               [&](const std::string& key) {
                 return seen.values.at(key).size() > 1 || some_lack(records, key);
               });
  return result;
}

std::vector<std::string> varying_beside_label(const std::vector<const Record*>& records) {
  std::vector<std::string> keys = varying_settings(records);
  std::erase_if(keys, [](const std::string& key) {
    return key == "method.name" || key == "quant.bits" || key == "quant.group_size";
  });
  return keys;
}

ShownSettings::ShownSettings(const std::vector<const Record*>& records) {
  std::set<std::string> paths;
  for (const Record* record : records) paths.insert(record->setting("model.path"));
  models_ = short_paths(paths);
}

std::string ShownSettings::of(const Record& record, const std::string& key) const {
  const std::string text = record.setting(key);
  return key == "model.path" ? models_.at(text) : text;
}

std::vector<std::pair<std::string, std::string>> shared_settings(
    const std::vector<const Record*>& records) {
  const Seen seen = collect(records);
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& key : seen.order)
    if (seen.values.at(key).size() == 1) result.emplace_back(key, *seen.values.at(key).begin());
  return result;
}

std::vector<std::vector<const Record*>> alike_but_for(const std::vector<const Record*>& records,
                                                      const std::vector<std::string>& keys) {
  std::vector<std::vector<const Record*>> groups;
  std::map<std::string, size_t> place;
  for (const Record* record : records) {
    std::string others;
    for (const auto& [name, value] : record->settings)
      if (std::find(keys.begin(), keys.end(), name) == keys.end())
        others += name + "=" + value + "\n";
    const auto [at, is_new] = place.emplace(others, groups.size());
    if (is_new) groups.emplace_back();
    groups[at->second].push_back(record);
  }
  std::erase_if(groups, [](const auto& group) { return group.size() < 2; });
  return groups;
}

std::string or_nothing(const std::string& text) { return text.empty() ? kNothing : text; }

std::string code_bits(const Record& record) {
  const std::string made = record.setting("model.synthetic.packed.bits");
  return made.empty() ? record.setting("quant.bits") : made;
}

std::string group_text(const Record& record) {
  std::string group = record.setting("quant.group_size");
  if (!record.setting("model.synthetic.packed.bits").empty()) {
    group = record.setting("model.synthetic.packed.group_size");
    if (group.empty()) group = "-1";
  }
  return group == "-1" ? "row" : or_nothing(group);
}

std::string cell_label(const Record& record) {
  if (!record.setting("kernels.m").empty()) return "kernels";
  std::string label = record.setting("method.name");
  const std::string bits = record.setting("quant.bits");
  const std::string group = record.setting("quant.group_size");
  if (!bits.empty()) label += " " + bits + (bits == "ternary" ? "" : " bits");
  if (group == "-1") label += ", whole rows";
  if (!group.empty() && group != "-1") label += ", groups of " + group;
  return label;
}

std::string cell_words(const Record& record, const std::vector<std::string>& settings,
                       const ShownSettings& shown) {
  std::string text = cell_label(record);
  for (const std::string& key : settings)
    if (const std::string value = shown.of(record, key); !value.empty())
      text += ", " + key + " " + value;
  return text;
}

}  // namespace gptqb
