// From a plan to records: each cell is opened, calibrated, quantized, evaluated and written down;
// one that fails is recorded with its reason and the rest goes on.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/progress.h"
#include "eval/kernel_bench.h"
#include "runner/plan.h"
#include "runner/record.h"

namespace gptqb {

class InputCache;

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
  bool verify = false;                    // hash the model's files whole
  std::vector<std::string> argv;          // for the record
  Progress* progress = nullptr;           // null: silent
  const KernelSource* kernels = nullptr;  // null: those of kernels.def
  InputCache* inputs = nullptr;           // made for these folders; null: its own
  // Called before a cell's weights are touched, with the host memory that it is planned to take:
  // may wait for other cells to end, returns the host memory it may take at most. Empty: it just
  // starts.
  std::function<int64_t(int64_t host_bytes)> admit;
};

// What became of a cell: the order is that of RunOutcome's counts.
enum class CellOutcome { kRan, kReused, kFailed, kSkipped, kMissing };
const char* outcome_name(CellOutcome outcome);  // "ran", "reused", ...
// Empty for another word.
std::optional<CellOutcome> outcome_of(const std::string& name);

struct RunOutcome {
  int64_t ran = 0;
  int64_t reused = 0;
  int64_t failed = 0;
  int64_t skipped = 0;          // this build cannot run them
  int64_t missing = 0;          // skipped because model or data are not there
  std::vector<Record> records;  // of the plan's cells, in its order

  void count(CellOutcome outcome);
};

// Throws Error if `device` is none of cpu, cuda, cuda:N, or cannot be computed on.
void check_device(const std::string& device);

// "cuda:0" of "cuda"; others as they are.
std::string one_device(const std::string& device);

struct CellResult {
  CellOutcome outcome;
  Record record;
};

// Runs cells of a plan one by one in this process, and keeps what they share.
class CellRunner {
 public:
  virtual ~CellRunner() = default;
  // Cell `index` of the plan, if it is not finished; its record is on disk then. Empty, and nothing
  // was done, if another process is at the cell. Throws as run_plan().
  virtual std::optional<CellResult> run(size_t index) = 0;
};
// Both must live as long.
std::unique_ptr<CellRunner> make_cell_runner(const Plan& plan, const RunOptions& options);

// The failed record of a cell whose process is gone, written down. Empty if by now another process
// is at the cell.
std::optional<CellResult> record_lost_cell(const Plan& plan, size_t index,
                                           const RunOptions& options, const std::string& reason);

// Runs what is not finished, on a device that check_device() accepted. A cell that another process
// is at is left for the end, and waited for. Throws Error if a record
// cannot be written, Interrupted on Ctrl-C; what was finished by then is on disk, and the same call
// goes on from there.
RunOutcome run_plan(const Plan& plan, const RunOptions& options);

}  // namespace gptqb
