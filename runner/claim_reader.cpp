#include "runner/claim_reader.h"

#include <limits>

#include "common/text.h"
#include "runner/plain_values.h"
#include "runner/schema.h"

namespace gptqb {

namespace {

void read_bounds(const std::string& key, const YamlNode& node, std::optional<double>& least,
                 std::optional<double>& most, Faults& faults) {
  if (!node.is_map() || node.entries.empty()) {
    faults.add(node.position, key,
               "expected {at_least: X, at_most: Y} or one of them, got " +
                   (node.is_map() ? "an empty map" : node.describe()));
    return;
  }
  for (const YamlEntry& entry : node.entries) {
    const bool known = entry.key == "at_least" || entry.key == "at_most";
    if (!known) {
      faults.add(entry.position, key + "." + entry.key,
                 unknown_name(entry.key, {"at_least", "at_most"}));
      continue;
    }
    const double any = -std::numeric_limits<double>::infinity();
    if (const auto value = read_number(key + "." + entry.key, entry.value, any, faults))
      (entry.key == "at_least" ? least : most) = value;
  }
}

ClaimSettings read_part(const YamlNode& node, const ReadSettings& read_where, Faults& faults) {
  static const std::vector<std::string> kKeys = {"metric", "of", "against", "ratio", "difference"};
  ClaimSettings result;
  result.position = node.position;
  if (!node.is_map()) {
    faults.add(node.position, "claim.parts",
               "expected {metric, of, against, ratio or difference}, got " + node.describe());
    return result;
  }
  ClaimPart& part = result.part;
  for (const YamlEntry& entry : node.entries) {
    const std::string key = "claim.parts." + entry.key;
    if (entry.key == "metric")
      part.metric = read_text(key, entry.value, faults);
    else if (entry.key == "of")
      read_where(entry.value, result.of);
    else if (entry.key == "against")
      read_where(entry.value, result.against);
    else if (entry.key == "ratio")
      read_bounds(key, entry.value, part.ratio_at_least, part.ratio_at_most, faults);
    else if (entry.key == "difference")
      read_bounds(key, entry.value, part.difference_at_least, part.difference_at_most, faults);
    else
      faults.add(entry.position, key, unknown_name(entry.key, kKeys));
  }
  for (const char* key : {"metric", "of", "against"})
    if (node.find(key) == nullptr)
      faults.add(node.position, "claim.parts",
                 std::string("expected `") + key + "` in each part, got none");
  if ((node.find("ratio") != nullptr) == (node.find("difference") != nullptr))
    faults.add(node.position, "claim.parts",
               "expected one of ratio and difference, which say what makes the claim hold");
  for (const auto& [key, setting] : result.of) part.of.emplace_back(key, value_text(setting.value));
  for (const auto& [key, setting] : result.against)
    part.against.emplace_back(key, value_text(setting.value));
  return result;
}

}  // namespace

void read_claim(const YamlNode& node, const ReadSettings& read_where, Faults& faults,
                Experiment& out) {
  const YamlNode* parts = node.find("parts");
  if (!node.is_map() || node.find("statement") == nullptr || parts == nullptr ||
      !parts->is_list() || parts->items.empty()) {
    faults.add(node.position, "claim",
               "expected {statement: TEXT, parts: [{metric, of, against, ratio or difference}]}, "
               "got " +
                   (node.is_map() ? "a map without them" : node.describe()));
    return;
  }
  for (const YamlEntry& entry : node.entries)
    if (entry.key != "statement" && entry.key != "parts")
      faults.add(entry.position, "claim." + entry.key,
                 unknown_name(entry.key, {"statement", "parts"}));
  out.statement = read_text("claim.statement", *node.find("statement"), faults);
  for (const YamlNode& item : parts->items)
    out.claim.push_back(read_part(item, read_where, faults));
}

}  // namespace gptqb
