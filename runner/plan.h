// From an experiment to the cells that will run, before any work.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "methods/memory_plan.h"
#include "runner/cell.h"
#include "runner/claim_types.h"
#include "runner/executor_settings.h"
#include "runner/expectation.h"
#include "runner/experiment.h"
#include "runner/save_settings.h"

namespace gptqb {

struct PlannedCell {
  Cell cell;
  std::string skip_reason;  // empty: the cell runs. Else its record is `skipped` with this reason
  std::vector<Expectation> expectations;
  std::vector<std::string> missing{};  // missing_inputs() of it, where they were looked for
  int64_t position = 0;                // in the whole plan, whatever the shard: orders tables
};

struct Plan {
  std::string name;  // of the experiment
  std::string tier;
  std::string file;
  std::vector<PlannedCell> cells;    // of this shard, in the order of the file, duplicates merged
  int64_t merged = 0;                // cells that turned out to be one with an earlier cell
  int64_t excluded = 0;              // cells left out by `exclude`
  int64_t other_shards = 0;          // cells that other shards run
  bool resume = true;                // keep finished blocks
  MemoryLimits limits;               // `limits`; empty: what the machine has
  bool dump_hessians = false;        // `dump: [hessians]`
  std::optional<SaveSettings> save;  // packed checkpoints of the cells that quantize
  Claim claim;                       // without a statement: none
  ExecutorSettings executor;         // where cells run
  std::vector<std::string> notes;    // what the user should know before the run
};

struct PlanOptions {
  std::vector<std::string> methods;     // what this build can run: quantizers().names()
  std::vector<std::string> evaluators;  // evaluators().names()
  int64_t shard = 0;                    // 0-based; see runner/shard.h
  int64_t shards = 1;
};

// Cells x sweep x seeds, minus exclude. Cells this build cannot run become skipped with the reason;
// keys that a method does not use are dropped, and cells that are then equal are merged. `kernels`
// becomes a cell of its own. Throws Error (every fault in one message) if
// keys contradict each other, an entry of `expect` or `exclude` matches no cell, or `save` asks for
// a checkpoint that cannot be.
Plan make_plan(const Experiment& experiment, const PlanOptions& options);

// The plan as text: a line a cell with its id, the settings in which cells differ and the values it
// is held against, then whether it runs, or why not.
std::string plan_table(const Plan& plan);

// Sums over several plans, in one line: "total: 3 experiments, 40 cells: ...".
std::string plan_totals(const std::vector<Plan>& plans);

// What must be put in place before `cell` can run: a sentence each for a model folder without
// config.json and for each dataset, saying where it was looked for and how to get it. `data_root`:
// $GPTQ_BENCH_DATA (may be empty); relative paths of models and own datasets start at `base`
// (empty: the working directory). C4's shards, which take minutes to read, are only looked for.
std::vector<std::string> missing_inputs(const Cell& cell, const std::filesystem::path& data_root,
                                        const std::filesystem::path& base);

// The same for each cell of `plan` that would run, put into its `missing`. Returns each sentence
// once.
std::vector<std::string> look_for_inputs(Plan& plan, const std::filesystem::path& data_root,
                                         const std::filesystem::path& base);

}  // namespace gptqb
