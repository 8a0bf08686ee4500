// From an experiment to the cells that will run, before any work.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/cell.h"
#include "runner/experiment.h"

namespace gptqb {

// A value that a cell's metric is held against. Exactly one of `value` (with a tolerance), `at_most` and
// `at_least` is set.
struct Expectation {
  std::string metric;  // "perplexity.wikitext2", "seconds.quantize", "layer.<full layer name>.loss"
  std::optional<double> value;
  std::optional<double> tolerance_absolute;  // of `value`, in its unit
  std::optional<double> tolerance_relative;  // of `value`, as a share of it
  std::optional<double> at_most;
  std::optional<double> at_least;
  std::string source;      // where the value was published
  std::string confidence;  // how sure the value is, in the words of the experiment file
  std::string where;       // the `where` of the file as text: "method.name: gptq, quant.bits: 4"
  std::string location;    // "experiments/opt_125m.yaml:31:5"
};

struct PlannedCell {
  Cell cell;
  std::string skip_reason;  // empty: the cell runs. Else its record is `skipped` with this reason
  std::vector<Expectation> expectations;
};

struct Plan {
  std::string name;  // of the experiment
  std::string tier;
  std::filesystem::path file;
  std::vector<PlannedCell> cells;   // of this shard, in the order of the file, duplicates merged
  int64_t merged = 0;               // cells that turned out to be one with an earlier cell
  int64_t excluded = 0;             // cells left out by `exclude`
  int64_t other_shards = 0;         // cells of the other shards
  bool resume = true;
};

struct PlanOptions {
  std::vector<std::string> methods;     // what this build can run: quantizers().names()
  std::vector<std::string> evaluators;  // the same of evaluators().names()
  int64_t shard = 0;                    // 0-based; cells are dealt out in turn
  int64_t shards = 1;
};

// Sweep x cells x seeds, minus exclude. Cells this build cannot run become skipped with the reason; keys that a
// method does not use are dropped and cells that are then equal are merged. Throws Error (every fault of the file
// in one message) if keys contradict each other or an entry of `expect` matches no cell.
Plan make_plan(const Experiment& experiment, const PlanOptions& options);

// The plan as text: a line a cell with its id and the settings in which cells differ, then what is skipped and why.
std::string plan_table(const Plan& plan);

// What must be put in place before `cell` can run: a sentence each for a model folder without config.json and for
// each dataset file, saying where it was looked for and how to get it. `data_root`: $GPTQ_BENCH_DATA (may be empty);
// relative paths start at `base`.
std::vector<std::string> missing_inputs(const Cell& cell, const std::filesystem::path& data_root,
                                        const std::filesystem::path& base);

}  // namespace gptqb
