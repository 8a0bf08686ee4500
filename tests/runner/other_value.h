// Values for tests that set one key after another.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runner/schema.h"

namespace gptqb::test {

// A valid value of `spec` that is not its default.
inline nlohmann::json other_value(const KeySpec& spec) {
  if (spec.type == KeyType::kBool) return !spec.default_value.get<bool>();
  if (spec.key == "method.name") return "rtn";
  if (spec.key == "method.order") return "random:5";
  if (spec.type == KeyType::kChoice) {
    for (const std::string& word : spec.words)
      if (nlohmann::json(word) != spec.default_value && word != std::to_string(QuantConfig{}.bits))
        return parse_integer(word) ? nlohmann::json(*parse_integer(word)) : nlohmann::json(word);
  }
  if (spec.type == KeyType::kFloat) return 0.125;
  if (spec.type == KeyType::kText || spec.type == KeyType::kPath) return "other";
  // A whole number, or a word such as `all`.
  return spec.default_value.is_number() ? spec.default_value.get<int64_t>() + 17 : 17;
}

}  // namespace gptqb::test
