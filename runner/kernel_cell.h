// A cell of the section `kernels`, from its settings to the rows of kernels.csv.
#pragma once

#include <string>

#include "runner/cell.h"
#include "runner/record.h"
#include "runner/run.h"

namespace gptqb {

// Measures; fills `kernels`, metrics, seconds and notes of `record`. Returns why the cell failed: a
// sentence for each kernel whose result was wrong or that could not be timed; empty if none. Throws
// Error if nothing can be measured, Interrupted on Ctrl-C.
std::string run_kernel_cell(const Cell& cell, const RunOptions& options, Record& record);

}  // namespace gptqb
