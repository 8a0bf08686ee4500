#include "models/json.h"

#include <set>
#include <vector>

#include "common/error.h"

namespace gptqb {

nlohmann::json parse_json_object(std::string_view text, const std::string& where) {
  using nlohmann::json;
  std::vector<std::set<std::string>> open_objects;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) {
      open_objects.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      open_objects.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& name = parsed.get_ref<const std::string&>();
      if (!open_objects.back().insert(name).second)
        throw Error(where, "expected each name once, got a duplicate '" + name + "'");
    }
    return true;
  };
  json result;
  try {
    result = json::parse(text.begin(), text.end(), watch);
  } catch (const json::parse_error& error) {
    throw Error(where, "expected JSON, got a syntax error at byte " + std::to_string(error.byte));
  }
  if (!result.is_object())
    throw Error(where, std::string("expected a JSON object, got ") + result.type_name());
  return result;
}

}  // namespace gptqb
