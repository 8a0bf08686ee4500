// The model and the calibration windows of an experiment, as the runner makes them.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "methods/quantizer.h"
#include "models/causal_lm.h"
#include "runner/input_cache.h"
#include "runner/plan.h"

namespace gptqb::test {

struct ExperimentInputs {
  std::unique_ptr<CausalLm> model;
  at::Tensor windows;  // i64 [samples, seqlen]
};

// Of the first cell that calibrates. `data_root` may be null: then all data are named by path.
inline ExperimentInputs inputs_of(const std::vector<Experiment>& experiments, const char* data_root,
                                  const std::string& device) {
  PlanOptions options;
  options.methods = quantizers().names();
  for (const auto& experiment : experiments)
    for (const auto& planned : make_plan(experiment, options).cells) {
      const Cell& cell = planned.cell;
      if (!cell.needs_calibration()) continue;
      InputCache cache(data_root != nullptr ? data_root : "", "");
      const auto& windows = cache.calibration(cell).calibration;
      auto ids = at::tensor(at::ArrayRef<int32_t>(windows.ids), at::kLong);
      return {cache.open(cell, device), ids.view({windows.count, windows.seqlen})};
    }
  throw std::runtime_error("no cell of the experiment calibrates");
}

}  // namespace gptqb::test
