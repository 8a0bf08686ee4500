// `gptq-bench compare OLD NEW`: the same cells run by two versions, and whether the second is
// worse.
//
// Quality is deterministic on one machine and build: any change is one of the code, so a worsening
// beyond the tolerance is a regression. Across builds and devices codes may differ where a value
// lies on a rounding border; what that does to a loss is as random as the windows it falls on. So
// where there is a loss for each window, a worsening beyond the tolerance must also be sure, by the
// paired 95 % interval (Student's t over the same windows), unless it is more than four times what
// is allowed: so much is never put down to few windows.
// Times are judged by time_verdict.h, from repeated runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/record.h"
#include "runner/report/change.h"
#include "runner/report/environment_changes.h"
#include "runner/report/time_verdict.h"

namespace gptqb {

struct CompareOptions {
  // A metric may worsen by the larger of a share of its old value and a number in its own unit.
  double relative_tolerance = 0.002;
  double absolute_tolerance = 0;
  // Of times and rates.
  double time_threshold = 0.05;
  double confidence = 0.99;
  // Of times in seconds: phases that differ by less matter to nobody.
  double smallest_seconds = 0.05;
};

struct MetricChange {
  std::string cell_id;
  std::string experiment;
  std::string label;   // "gptq 4 bits, groups of 128"
  std::string metric;  // "status" for a cell as a whole
  std::string before;
  std::string after;
  std::string detail;  // how it was judged: "loss +0.012 ± 0.003 nats/token over 149 windows"
  Change change = Change::kSame;
};

struct Comparison {
  std::vector<EnvironmentChange> environment;
  std::vector<MetricChange> changes;
  std::string before;  // what ran OLD and NEW: devices and programs
  std::string after;
  int64_t cells = 0;     // in both
  int64_t old_runs = 0;  // most runs of one cell
  int64_t new_runs = 0;
  // Something is worse, slower or missing: the exit code is then 1.
  bool tripped() const;
  int64_t count(Change change) const;
};

// Cells are matched by id; several records of one id are repeated runs of that cell (a record that
// is there twice counts once). Of metrics that are no times the worst of NEW is held against the
// first of OLD. Times need the same device and as many threads, and whole runs, not resumed ones. A
// cell, metric or kernel problem that was there and is no more trips the gate; one that is only in
// `after` does not.
Comparison compare_records(const std::vector<Record>& before, const std::vector<Record>& after,
                           const CompareOptions& options = {});

// Markdown: what changed around the numbers, the gate's verdict, then changes with regressions
// first. Unchanged metrics are counted, or listed too where `all` is true.
std::string comparison_text(const Comparison& comparison, bool all = false);

// JUnit XML as CI systems read it (testsuites, testsuite, testcase): a test case for each metric of
// each cell; a failure for each that trips the gate, skipped where nothing can be said.
std::string junit_xml(const Comparison& comparison);

}  // namespace gptqb
