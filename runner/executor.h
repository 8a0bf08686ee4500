// Where the cells of a plan run: in this process, in others on this machine, as jobs of a cluster.
#pragma once

#include "common/registry.h"
#include "runner/job.h"

namespace gptqb {

struct ExecutorContext {
  Progress* progress = nullptr;           // never null
  const KernelSource* kernels = nullptr;  // null: those of kernels.def
  InputCache* inputs = nullptr;           // for cells that run in this process; null: their own
  bool cancel_on_interrupt = false;       // Slurm: Ctrl-C stops jobs too
  double poll_seconds = 5;                // Slurm: between two questions to the cluster
};

struct Executor {
  // Runs what is not finished of job.plan; all records are on disk then. Throws Interrupted on
  // Ctrl-C (the same call goes on from there), Error if cells cannot be run at all.
  RunOutcome (*run)(const Job& job, const ExecutorContext& context);
};

// executors.def
const Registry<Executor>& executors();

// Path of this program, for starting it again.
std::string program_path();

// Reads the plan's records back, in its order: for outcomes that other processes made. A cell
// without a readable record gets none.
std::vector<Record> records_of(const Job& job);

}  // namespace gptqb
