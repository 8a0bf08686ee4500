// OBQ as the papers print it, one step after another; the yardstick for obq_fast.h.
#pragma once

#include "methods/obq_problem.h"

namespace gptqb {

// Row by row, rewriting the whole inverse at every step: n^3 work a row and one n x n matrix of
// memory.
ObqResult solve_obq_reference(const ObqProblem& problem);

}  // namespace gptqb
