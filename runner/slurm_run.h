// What is on disk of a plan that runs as Slurm jobs: <output>/slurm/<run>/. The process that
// submitted, its tasks and whoever comes back later have nothing else in common.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/job.h"

namespace gptqb {

class SlurmRun {
 public:
  struct Submission {
    std::string job;  // id of the array; empty: sbatch had not answered when this was written
    std::vector<std::vector<size_t>> tasks;  // cells of each task of the array
  };
  // How often a cell was lost in a row, and how many blocks it had finished at the last count.
  struct Trials {
    int64_t lost = 0;
    int64_t blocks = 0;
  };
  struct State {
    std::vector<Submission> submissions;
    std::vector<Trials> trials;  // of each cell of the plan
  };

  // An existing one, by its folder.
  explicit SlurmRun(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // That of `job`, by its cells, settings and build: the same command finds it again. Its folder
  // may not exist yet.
  static SlurmRun of(const Job& job);

  const std::filesystem::path& folder() const { return folder_; }
  std::string name() const { return folder_.filename().string(); }
  bool exists() const;
  // Writes the job down, frozen: tasks read it, whatever becomes of the experiment file.
  void create(const Job& job) const;
  Job job() const;
  void remove() const;

  // Written before each submission, so that its tasks find their cells.
  void save(const State& state) const;
  State load() const;
  std::vector<size_t> cells_of_task(int64_t submission, int64_t task) const;

  // What became of cell `index`; empty: no task has finished it.
  std::optional<CellOutcome> outcome(size_t index) const;
  void set_outcome(size_t index, CellOutcome outcome) const;

  // What tasks of a submission print.
  std::filesystem::path log(int64_t submission, const std::string& task) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace gptqb
