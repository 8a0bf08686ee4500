// Whether evaluation text was seen in calibration.
#pragma once

#include <cstdint>
#include <vector>

namespace gptqb {

// Share, from 0 to 1, of the runs of `n` ids in `b` (each place counted) that also stand somewhere
// in `a`. 0 if `b` has no run that long. Runs are compared by 64-bit hashes.
double ngram_overlap(const std::vector<int32_t>& a, const std::vector<int32_t>& b, int n = 13);

}  // namespace gptqb
