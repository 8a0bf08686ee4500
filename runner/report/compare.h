// `gptq-bench compare OLD NEW`: the same cells run twice, and whether the second run is worse.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/record.h"

namespace gptqb {

struct CompareOptions {
  // Of metrics without paired samples: a change by less than this share is noise. Times need more
  // room than results.
  double relative_threshold = 0.005;
  double time_threshold = 0.10;
  // Times that differ by less than this many seconds are noise whatever their share.
  double smallest_seconds = 1.0;
  // A loss difference below this many nats a token is no regression however sure it is; nor is a
  // smaller difference in any other metric with a sample for each window.
  double smallest_loss = 1e-4;
};

enum class Change { kSame, kBetter, kWorse, kMissing, kNew, kNotComparable };
const char* change_name(
    Change change);  // "same", "better", "WORSE", "MISSING", "new", "not comparable"

struct MetricChange {
  std::string cell_id;
  std::string label;   // "gptq 4 bits, groups of 128"
  std::string metric;  // "status" for a cell as a whole
  std::string before;
  std::string after;
  std::string detail;  // how it was judged: "loss +0.012 +- 0.003 nats/token over 149 windows"
  Change change = Change::kSame;
};

struct Comparison {
  std::vector<MetricChange> changes;
  int64_t cells = 0;  // in both
  // A metric is WORSE or MISSING: the exit code is then 1.
  bool tripped() const;
};

// Cells are matched by id. Perplexities over the same windows are compared by the paired 95 %
// interval of their losses; other metrics by their relative change; times only on the same device.
// A cell or metric that was there and is no more trips the gate; one that is only in `after` does
// not.
Comparison compare_records(const std::vector<Record>& before, const std::vector<Record>& after,
                           const CompareOptions& options = {});

// Markdown, regressions first; unchanged metrics are only counted.
std::string comparison_text(const Comparison& comparison);

// JUnit XML for CI: a test case for each metric of each cell, a failure for each that trips the
// gate.
std::string junit_xml(const Comparison& comparison);

}  // namespace gptqb
