// How the method `external` reaches a program of the user's own. This layer touches no files and
// starts no processes, so what does is handed in (runner/external_program.h).
#pragma once

#include "methods/quantizer.h"

namespace gptqb {

class ExternalSolver {
 public:
  virtual ~ExternalSolver() = default;
  // The program's answer for one layer, on any device: what stands in for its weights. Throws Error
  // naming the layer and the program if there is none that can be used.
  virtual LinearReplacement solve(const LinearProblem& problem) = 0;
};

}  // namespace gptqb
