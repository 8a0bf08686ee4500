#include "runner/slurm_run.h"

#include <nlohmann/json.hpp>

#include "common/atomic_file.h"
#include "common/error.h"
#include "common/hash.h"
#include "runner/build_info.h"

namespace gptqb {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

}  // namespace

SlurmRun SlurmRun::of(const Job& job) {
  Job same = job;
  // Words of the command line that are in none of the other fields change nothing.
  same.argv.clear();
  same.fresh = false;
  const std::string text = job_to_json(same) + build_id();
  return SlurmRun(fs::absolute(job.output) / "slurm" / ("run-" + sha256_hex(text).substr(0, 12)));
}

bool SlurmRun::exists() const { return fs::exists(folder_ / "state.json"); }

void SlurmRun::create(const Job& job) const {
  write_file_atomically(folder_ / "job.json", job_to_json(job));
}

Job SlurmRun::job() const {
  const fs::path path = folder_ / "job.json";
  return job_from_json(read_file(path), path.string());
}

void SlurmRun::remove() const {
  std::error_code ignored;  // what is left is found finished, and removed, by the next run
  fs::remove_all(folder_, ignored);
}

void SlurmRun::save(const State& state) const {
  Json json = {{"submissions", Json::array()}, {"trials", Json::array()}};
  for (const Submission& each : state.submissions)
    json["submissions"].push_back({{"job", each.job}, {"tasks", each.tasks}});
  for (const Trials& each : state.trials)
    json["trials"].push_back({{"lost", each.lost}, {"blocks", each.blocks}});
  write_file_atomically(folder_ / "state.json", json.dump());
}

SlurmRun::State SlurmRun::load() const {
  const fs::path path = folder_ / "state.json";
  State state;
  try {
    const Json json = Json::parse(read_file(path));
    for (const Json& each : json.at("submissions"))
      state.submissions.push_back({each.at("job").get<std::string>(),
                                   each.at("tasks").get<std::vector<std::vector<size_t>>>()});
    for (const Json& each : json.at("trials"))
      state.trials.push_back({each.at("lost").get<int64_t>(), each.at("blocks").get<int64_t>()});
  } catch (const Json::exception& error) {
    throw Error(path.string(), std::string("expected the state of a Slurm run, got a fault: ") +
                                   error.what() +
                                   ". Remove its folder, and cancel its jobs if there are any");
  }
  return state;
}

std::vector<size_t> SlurmRun::cells_of_task(int64_t submission, int64_t task) const {
  const State state = load();
  if (submission < 0 || submission >= static_cast<int64_t>(state.submissions.size()))
    throw Error(folder_.string(), "expected submission " + std::to_string(submission) + ", got " +
                                      std::to_string(state.submissions.size()) + " of them");
  const auto& tasks = state.submissions[static_cast<size_t>(submission)].tasks;
  if (task < 0 || task >= static_cast<int64_t>(tasks.size()))
    throw Error(folder_.string(), "expected task " + std::to_string(task) + ", got " +
                                      std::to_string(tasks.size()) + " of them");
  return tasks[static_cast<size_t>(task)];
}

std::optional<CellOutcome> SlurmRun::outcome(size_t index) const {
  const fs::path path = folder_ / "done" / std::to_string(index);
  if (!fs::exists(path)) return std::nullopt;
  return outcome_of(read_file(path));
}

void SlurmRun::set_outcome(size_t index, CellOutcome outcome) const {
  write_file_atomically(folder_ / "done" / std::to_string(index), outcome_name(outcome));
}

fs::path SlurmRun::log(int64_t submission, const std::string& task) const {
  return folder_.parent_path() / (name() + "-" + std::to_string(submission) + "-" + task + ".log");
}

}  // namespace gptqb
