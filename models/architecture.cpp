#include "models/architecture.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "common/error.h"
#include "common/text.h"
#include "models/packed_weights.h"
#include "models/synthetic_weights.h"

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

namespace {

void check_device(at::Device device) {
  if (device.is_cuda() && !at::hasCUDA())
    throw Error("device",
                "expected cpu, got " + device.str() + ": this build or machine has no CUDA device");
}

// `open_weights` is called when the config is known to be one that this program computes: what it
// says of a folder comes before what the files say.
std::unique_ptr<CausalLm> open_source(
    ConfigReader config, const std::function<std::unique_ptr<WeightSource>()>& open_weights,
    const ModelOptions& options) {
  ModelIdentity identity = check_config(config);
  const Architecture& architecture = architecture_for(identity.model_type, config.where());
  return architecture.open({std::move(config), std::move(identity), open_weights(), options});
}

}  // namespace

std::unique_ptr<CausalLm> open_model(const std::filesystem::path& folder,
                                     const ModelOptions& options) {
  if (!std::filesystem::is_directory(folder))
    throw Error(folder.string(), "expected a model folder, got none at this path");
  check_device(options.device);
  if (!std::filesystem::exists(folder / "config.json"))
    throw Error(
        folder.string(),
        "expected config.json in this folder, got none. A Hugging Face model folder has it.");
  ConfigReader config(folder / "config.json");
  const ConfigReader said = config;
  return open_source(
      std::move(config), [&] { return folder_weights(folder, said, options.checkpoint_format); },
      options);
}

std::unique_ptr<CausalLm> open_synthetic(const SyntheticModel& model, const ModelOptions& options) {
  check_device(options.device);
  return open_source(
      ConfigReader("model.synthetic", model.config()),
      [&] {
        return std::make_unique<SyntheticWeights>(static_cast<uint64_t>(model.seed), model.name(),
                                                  model.packed());
      },
      options);
}

}  // namespace gptqb
