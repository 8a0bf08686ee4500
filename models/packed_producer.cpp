#include "models/packed_producer.h"

#include "common/atomic_file.h"
#include "common/error.h"
#include "models/json.h"

namespace gptqb {

std::optional<nlohmann::json> own_settings(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "quantize_config.json";
  // config.json is written last: without it the folder is not complete.
  if (!std::filesystem::exists(path) || !std::filesystem::exists(folder / "config.json"))
    return std::nullopt;
  try {
    const auto settings = parse_json_object(read_file(path), path.string());
    const auto meta = settings.find("meta");
    if (meta == settings.end() || !meta->is_object() || !meta->contains("quantizer"))
      return std::nullopt;
    const auto& names = meta->at("quantizer");
    const bool own =
        names.is_array() && names.size() == 1 && names[0].is_string() &&
        names[0].get_ref<const std::string&>().starts_with(std::string(kProducer) + ":");
    return own ? std::optional(settings) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace gptqb
