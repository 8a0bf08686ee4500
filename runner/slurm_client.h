// Slurm's own programs, as far as running cells needs them: sbatch, squeue, scontrol, scancel. No
// accounting is asked for, which not every cluster keeps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/executor_settings.h"

namespace gptqb::slurm {

// Submits `script` with its words; `options` win over those of `settings`, and gres goes only to
// jobs that work on cells. Returns the job's id. Throws Error with what sbatch said.
std::string submit(const ExecutorSettings& settings, bool works,
                   const std::vector<std::string>& options, const std::vector<std::string>& script);

// A task of an array, or a job.
struct Queued {
  std::string job;     // of the array
  std::string task;    // its index; "N/A" of a job that is no array
  std::string state;   // "PENDING", "RUNNING", "COMPLETING", ...
  std::string reason;  // why it waits
  std::string name;
};
struct Queue {
  std::vector<Queued> tasks;  // of this user, not ended
  std::string fault;          // squeue's, if it could not ask
};
Queue queue();

// How a task that has ended did: "TIMEOUT, exit code 0:15". "" if Slurm has forgotten it, which it
// does within minutes.
std::string ending(const std::string& job, const std::string& task);

// Returns what scancel complained of.
std::string cancel(const std::vector<std::string>& jobs);

// One word for a POSIX shell, whatever is in it.
std::string shell_word(const std::string& text);

// A path as sbatch's --output takes it, where % stands for something else. Throws Error for one
// with a backslash, which Slurm takes out of it.
std::string output_pattern(const std::string& path);

}  // namespace gptqb::slurm
