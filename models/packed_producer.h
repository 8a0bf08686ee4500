// Who wrote a packed folder, as its `meta` says.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace gptqb {

// What `meta.quantizer` of our folders starts with; a colon and the version follow.
constexpr const char* kProducer = "gptq-bench";

// "gptq-bench:0.1.0", for `meta.quantizer`.
inline std::string producer(const std::string& version) {
  return std::string(kProducer) + ":" + version;
}

// The settings of a packed checkpoint that this program wrote; empty if `folder` is none.
std::optional<nlohmann::json> own_settings(const std::filesystem::path& folder);

}  // namespace gptqb
