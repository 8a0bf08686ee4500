#include "runner/executor.h"

#include <filesystem>

#include "common/atomic_file.h"
#include "common/error.h"

namespace gptqb {

#define GPTQB_EXECUTOR(name, summary) \
  RunOutcome run_cells_##name(const Job&, const ExecutorContext&);
#include "runner/executors.def"
#undef GPTQB_EXECUTOR

const Registry<Executor>& executors() {
  static const Registry<Executor> registry("executor", {
#define GPTQB_EXECUTOR(name, summary) {#name, summary, {run_cells_##name}, ""},
#include "runner/executors.def"
#undef GPTQB_EXECUTOR
                                                       });
  return registry;
}

std::string program_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

std::vector<Record> records_of(const Job& job) {
  std::vector<Record> records;
  for (const PlannedCell& planned : job.plan.cells) {
    const std::filesystem::path path = record_path(job.output, planned.cell.id());
    if (!std::filesystem::exists(path)) continue;
    try {
      records.push_back(record_from_json(read_file(path), path.string()));
    } catch (const Error&) {
      // The tables name it as damaged.
    }
  }
  return records;
}

}  // namespace gptqb
