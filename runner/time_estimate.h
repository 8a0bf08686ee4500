// How long a cell will take: by a block of it that is timed for real, or by earlier records of
// cells like it. There is no third way: a time that nobody measured is not given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/cell.h"
#include "runner/input_cache.h"
#include "runner/record.h"
#include "runner/run.h"

namespace gptqb {

struct TimeEstimate {
  double seconds = 0;  // of the whole cell, seconds.cell
  std::string how;  // "mean of 3 earlier records", "measured: read ..., quantize ... by 2 blocks"
};

// The mean of `records` that finished in one go on this device, with as many threads, a cell of the
// same settings but for those that cost no time: seeds, text of calibration, damping, bits of codes
// (ternary ones apart), symmetric grids. Empty: there is none.
std::optional<TimeEstimate> estimate_from_records(const Cell& cell,
                                                  const std::vector<Record>& records,
                                                  const Environment& here);

// Opens and reads what the cell needs, quantizes two of its blocks and evaluates a few windows, all
// as a run would, and leaves nothing behind. The second block stands for all after it, the third
// pass of windows for all of its kind; what is small enough is done whole. Throws Error: as
// prepare_cell() and the run itself; the cell gives blocks settings of their own, so that none
// stands for all.
TimeEstimate measure_time(const Cell& cell, InputCache& cache, const RunOptions& options);

}  // namespace gptqb
