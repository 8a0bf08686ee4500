#include "models/architecture.h"

#include <algorithm>
#include <utility>

#include "common/error.h"
#include "common/text.h"

namespace gptqb {

#define GPTQB_ARCHITECTURE(name, summary, ...) \
  std::unique_ptr<CausalLm> open_##name(ModelSource source);
#include "models/architectures.def"
#undef GPTQB_ARCHITECTURE

const Registry<Architecture>& architectures() {
#define GPTQB_ARCHITECTURE(name, summary, ...) {#name, summary, {{__VA_ARGS__}, open_##name}, ""},
  static const Registry<Architecture> registry("architecture", {
#include "models/architectures.def"
                                                               });
#undef GPTQB_ARCHITECTURE
  return registry;
}

const Architecture& architecture_for(const std::string& model_type, const std::string& where) {
  std::vector<std::string> known;
  for (const auto& entry : architectures().entries()) {
    const auto& types = entry.make.model_types;
    if (std::find(types.begin(), types.end(), model_type) != types.end()) return entry.make;
    known.insert(known.end(), types.begin(), types.end());
  }
  throw Error(where, "model_type: " + unknown_name(model_type, known));
}

std::unique_ptr<CausalLm> open_model(const std::filesystem::path& folder,
                                     const ModelOptions& options) {
  if (!std::filesystem::is_directory(folder))
    throw Error(folder.string(), "expected a model folder, got none at this path");
  if (options.device.is_cuda() && !at::hasCUDA())
    throw Error("device", "expected cpu, got " + options.device.str() +
                              ": this build or machine has no CUDA device");
  if (!std::filesystem::exists(folder / "config.json"))
    throw Error(
        folder.string(),
        "expected config.json in this folder, got none. A Hugging Face model folder has it.");
  ConfigReader config(folder / "config.json");
  ModelIdentity identity = check_config(config);
  const Architecture& architecture = architecture_for(identity.model_type, config.where());
  return architecture.open({std::move(config), std::move(identity), TensorReader(folder), options});
}

}  // namespace gptqb
