// The section `executor` of an experiment file: where cells run. No part of a cell's identity.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runner/experiment.h"

namespace gptqb {

struct ExecutorSettings {
  std::string name = "local";      // an entry of executors.def
  std::optional<int64_t> workers;  // cells at once; empty: local 1, Slurm as many as it starts
  // For sbatch, as they are; empty: not given.
  std::string partition;
  std::string time;
  std::string gres;
  std::vector<std::string> extra;
};

// Of a document, where `--set` has been applied. Adds a fault for words of `extra` that are no
// option, or one that the program gives itself.
ExecutorSettings executor_settings(const Settings& document, Faults& faults);

}  // namespace gptqb
