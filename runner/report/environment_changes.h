// What else changed between two sets of records, beside their numbers.
#pragma once

#include <string>
#include <vector>

#include "runner/record.h"

namespace gptqb {

struct EnvironmentChange {
  std::string what;    // "driver", "library torch", "model files of ${MODELS}/llama-7b"
  std::string before;  // all values that occur, sorted, joined by "; "; "" if there are none
  std::string after;
};

// Devices, driver, machine, threads, build, commit, libraries and fingerprints of models and
// tokenizers that are not the same in both: device first, then what runs on it, then the program.
// Times and argv are left out.
std::vector<EnvironmentChange> environment_changes(const std::vector<Record>& before,
                                                   const std::vector<Record>& after);

}  // namespace gptqb
