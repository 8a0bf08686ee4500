// The registry of architectures: one file in arch/ and one line in architectures.def each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/registry.h"
#include "models/causal_lm.h"
#include "models/config.h"
#include "models/weight_source.h"

namespace gptqb {

// A model, identified, and where its weights are.
struct ModelSource {
  ConfigReader config;
  ModelIdentity identity;
  std::unique_ptr<WeightSource> weights;
  ModelOptions options;
};

struct Architecture {
  std::vector<std::string> model_types;  // values of `model_type` in config.json that it reads
  std::unique_ptr<CausalLm> (*open)(ModelSource source);
};

const Registry<Architecture>& architectures();

// The entry that reads `model_type`. Throws Error(where) listing the known types.
const Architecture& architecture_for(const std::string& model_type, const std::string& where);

}  // namespace gptqb
