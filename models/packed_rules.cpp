#include "models/packed_rules.h"

namespace gptqb {
namespace {

// A pattern that fits this name and no other; "+:" sets, "-:" leaves dense.
std::string pattern_of(const std::string& layer, char sign) {
  std::string pattern = {sign, ':', '^'};
  for (const char letter : layer) {
    if (letter == '.') pattern += '\\';
    pattern += letter;
  }
  return pattern + '$';
}

}  // namespace

nlohmann::ordered_json packed_rules(const PackedLayer& base,
                                    const std::map<std::string, PackedLayer>& packed,
                                    const std::vector<std::string>& dense) {
  using Json = nlohmann::ordered_json;
  Json rules = Json::object();
  for (const std::string& layer : dense) rules[pattern_of(layer, '-')] = Json::object();
  for (const auto& [name, layer] : packed) {
    Json set = Json::object();
    if (layer.bits != base.bits) set["bits"] = layer.bits;
    if (layer.group_size != base.group_size) set["group_size"] = layer.group_size;
    if (layer.symmetric != base.symmetric) set["sym"] = layer.symmetric;
    if (!set.empty()) rules[pattern_of(name, '+')] = std::move(set);
  }
  return rules;
}

}  // namespace gptqb
