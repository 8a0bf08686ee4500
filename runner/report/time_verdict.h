// Whether code became slower, judged from repeated times.
//
// Times are not normal: load of the machine and clocks only ever slow, and by how much changes from
// run to run. So the test is one of ranks: the factor between NEW and OLD by Hodges and Lehmann,
// with the exact interval of Mann and Whitney (common/statistics.h), which assumes no distribution
// and which a few wild runs cannot pull. A verdict needs the whole interval on one side of a
// threshold that matters in practice, so that neither a sure change of 0.1 % nor an unsure one of
// 30 % trips a gate:
//   SLOWER   the interval lies above 1 + threshold
//   FASTER   it lies below 1 / (1 + threshold)
//   SAME     it lies between them
//   UNCLEAR  it holds one of them, or there are too few samples for an interval
// At equal code SLOWER is then rarer than (1 - confidence) / 2 by far, since the factor of 1 is not
// only outside the interval but well below it.
//
// A sample is a run of the program, for what differs between processes (load, clocks, placement of
// memory) is most of the noise: on a shared machine a kernel's median over 20 repetitions was 1.7
// times that of the process before. Runs of both sides should take turns on one machine; at 99 %
// five of each are the least. With fewer, repetitions within runs can still say SAME, never that
// one is slower.
#pragma once

#include <string>
#include <vector>

#include "runner/report/change.h"

namespace gptqb {

struct TimeOptions {
  double threshold = 0.05;   // a factor of up to 1 + threshold does not matter
  double confidence = 0.99;  // of the interval
  // A difference of medians below this is none that matters, whatever its share; in the unit of the
  // samples.
  double smallest = 0;
  // Rates: more is better.
  bool higher_is_better = false;
};

// Of each run the time of every repetition, or the one reading that it has.
using TimedSamples = std::vector<std::vector<double>>;

struct TimeVerdict {
  double before = 0;  // medians
  double after = 0;
  Change change = Change::kUnclear;  // kSame, kFaster, kSlower, kUnclear
  std::string detail;                // "x1.12 [1.09, 1.15] by 5 and 5 runs"
};

// Neither side may be empty, nor may a run be. Samples that are not finite are UNCLEAR.
TimeVerdict judge_times(const TimedSamples& before, const TimedSamples& after,
                        const TimeOptions& options);

}  // namespace gptqb
