// JSON as model folders carry it, read strictly: a name that occurs twice is an error, not a silent
// overwrite.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace gptqb {

// Parses `text`, whose top level must be an object. Throws Error(where): malformed text (with the
// byte offset), a name that occurs twice in one object, a top level that is no object.
nlohmann::json parse_json_object(std::string_view text, const std::string& where);

}  // namespace gptqb
