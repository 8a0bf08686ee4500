// From a plan to records: each cell is opened, calibrated, quantized, evaluated and written down;
// one that fails is recorded with its reason and the rest goes on.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/progress.h"
#include "eval/kernel_bench.h"
#include "runner/plan.h"
#include "runner/record.h"

namespace gptqb {

struct RunOptions {
  std::string device = "cpu";             // cpu, cuda, cuda:N
  std::filesystem::path output;           // of this experiment: records/, tables, work/
  std::filesystem::path data_root;        // $GPTQ_BENCH_DATA; may be empty
  std::filesystem::path base;             // relative paths of the experiment start here
  bool resume = true;                     // keep finished blocks of unfinished cells
  MemoryLimits limits;                    // empty: no limit
  bool dump_hessians = false;             // write H of each layer beside the records
  std::optional<SaveSettings> save;       // write packed checkpoints
  bool fresh = false;                     // redo finished cells and forget kept blocks
  std::vector<std::string> argv;          // for the record
  Progress* progress = nullptr;           // null: silent
  const KernelSource* kernels = nullptr;  // null: those of kernels.def
};

struct RunOutcome {
  int64_t ran = 0;
  int64_t reused = 0;
  int64_t failed = 0;
  int64_t skipped = 0;          // this build cannot run them
  int64_t missing = 0;          // skipped because model or data are not there
  std::vector<Record> records;  // of the plan's cells, in its order
};

// Throws Error if `device` is none of cpu, cuda, cuda:N, or cannot be computed on.
void check_device(const std::string& device);

// Runs what is not finished, on a device that check_device() accepted. Throws Error if a record
// cannot be written, Interrupted on Ctrl-C; what was finished by then is on disk, and the same call
// goes on from there.
RunOutcome run_plan(const Plan& plan, const RunOptions& options);

}  // namespace gptqb
