// OBQ with rows in parallel on the kernels of kernels/obq.h: the same codes as obq_reference.h, up
// to weights that lie on a rounding boundary and columns whose losses are equal to the last digits.
//
// Each row in flight needs an inverse of its own, n^2 numbers. How many rows are in flight is
// planned before anything is allocated: as many as the budget holds, and no more than there are
// threads (CPU) or multiprocessors and as many again (GPU), or rows.
#pragma once

#include <cstdint>
#include <string>

#include "methods/obq_problem.h"

namespace gptqb {

// Rows in flight for a layer of `rows` x `columns` with `workers` running at once. Throws Error
// naming `layer` if the budget (bytes) does not hold one row.
int64_t obq_rows_in_flight(const std::string& layer, int64_t rows, int64_t columns,
                           at::ScalarType dtype, int64_t budget, int64_t workers);

ObqResult solve_obq_fast(const ObqProblem& problem);

}  // namespace gptqb
