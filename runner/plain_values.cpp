#include "runner/plain_values.h"

#include "runner/schema.h"

namespace gptqb {

std::string read_text(const std::string& key, const YamlNode& node, Faults& faults) {
  KeySpec spec;
  spec.key = key;
  spec.type = KeyType::kText;
  const auto value = convert(spec, node, faults);
  return value ? value->get<std::string>() : "";
}

std::optional<double> read_number(const std::string& key, const YamlNode& node, double min,
                                  Faults& faults) {
  KeySpec spec;
  spec.key = key;
  spec.type = KeyType::kFloat;
  spec.range.min = min;
  const auto value = convert(spec, node, faults);
  if (!value) return std::nullopt;
  return value->get<double>();
}

}  // namespace gptqb
